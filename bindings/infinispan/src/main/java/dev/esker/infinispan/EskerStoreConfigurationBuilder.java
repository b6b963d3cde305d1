package dev.esker.infinispan;

import org.infinispan.commons.configuration.attributes.AttributeSet;
import org.infinispan.configuration.cache.AbstractStoreConfigurationBuilder;
import org.infinispan.configuration.cache.PersistenceConfigurationBuilder;
import org.infinispan.configuration.global.GlobalConfiguration;
import org.infinispan.persistence.PersistenceUtil;

/**
 * Adds an {@link EskerStore} to a cache: {@code persistence().addStore(EskerStoreConfigurationBuilder.class)}.
 * The property {@code memory.bytes} sets the memory of all stores of the process together, and a
 * property {@code option.NAME} an option of the store.
 */
public final class EskerStoreConfigurationBuilder
        extends AbstractStoreConfigurationBuilder<EskerStoreConfiguration, EskerStoreConfigurationBuilder> {
    /**
     * Creates a builder; Infinispan calls this.
     *
     * @param builder the builder of the cache's persistence
     */
    public EskerStoreConfigurationBuilder(PersistenceConfigurationBuilder builder) {
        super(builder, EskerStoreConfiguration.attributeDefinitionSet());
    }

    /**
     * Sets the directory below which the stores of caches are.
     *
     * @param path a directory; by default the persistent location of the cache manager
     * @return this builder
     */
    public EskerStoreConfigurationBuilder location(String path) {
        attributes.attribute(EskerStoreConfiguration.LOCATION).set(path);
        return self();
    }

    @Override
    public void validate(GlobalConfiguration global) {
        PersistenceUtil.validateGlobalStateStoreLocation(global, EskerStoreConfiguration.class.getSimpleName(),
                attributes.attribute(EskerStoreConfiguration.LOCATION));
        super.validate(global);
    }

    @Override
    public EskerStoreConfiguration create() {
        return new EskerStoreConfiguration(attributes.protect(), async.create());
    }

    @Override
    public EskerStoreConfigurationBuilder self() {
        return this;
    }
}
