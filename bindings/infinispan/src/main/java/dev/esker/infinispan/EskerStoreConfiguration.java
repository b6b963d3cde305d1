package dev.esker.infinispan;

import org.infinispan.commons.configuration.BuiltBy;
import org.infinispan.commons.configuration.ConfigurationFor;
import org.infinispan.commons.configuration.attributes.AttributeDefinition;
import org.infinispan.commons.configuration.attributes.AttributeSet;
import org.infinispan.configuration.cache.AbstractStoreConfiguration;
import org.infinispan.configuration.cache.AsyncStoreConfiguration;
import org.infinispan.configuration.serializing.SerializedWith;

/** The configuration of an {@link EskerStore}. */
@BuiltBy(EskerStoreConfigurationBuilder.class)
@ConfigurationFor(EskerStore.class)
@SerializedWith(EskerStoreConfigurationSerializer.class)
public final class EskerStoreConfiguration extends AbstractStoreConfiguration<EskerStoreConfiguration> {
    static final AttributeDefinition<String> LOCATION =
            AttributeDefinition.builder("path", null, String.class).immutable().build();

    /** The element of the store in a configuration file. */
    enum Element {
        STORE;

        @Override
        public String toString() {
            return "esker-store";
        }
    }

    EskerStoreConfiguration(AttributeSet attributes, AsyncStoreConfiguration async) {
        super(Element.STORE, attributes, async);
    }

    /**
     * Returns the attributes of the configuration.
     *
     * @return a new set with the defaults
     */
    public static AttributeSet attributeDefinitionSet() {
        return new AttributeSet(EskerStoreConfiguration.class, AbstractStoreConfiguration.attributeDefinitionSet(),
                LOCATION);
    }

    /**
     * Returns the directory below which the stores of caches are.
     *
     * @return the path; null for the persistent location of the cache manager
     */
    public String location() {
        return attributes.attribute(LOCATION).get();
    }
}
