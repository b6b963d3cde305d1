package dev.esker.infinispan;

import org.infinispan.commons.test.CommonsTestingUtil;
import org.infinispan.configuration.cache.ConfigurationBuilder;
import org.infinispan.persistence.IdentityKeyValueWrapper;
import org.infinispan.xsite.irac.persistence.BaseIracPersistenceTest;
import org.testng.annotations.Test;

/** Infinispan's own tests of the metadata of replication between sites. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreIracTest")
public class EskerStoreIracTest extends BaseIracPersistenceTest<String> {
    /** Creates it with values as they are. */
    public EskerStoreIracTest() {
        super(IdentityKeyValueWrapper.instance());
    }

    @Override
    protected void configure(ConfigurationBuilder builder) {
        builder.persistence().addStore(EskerStoreConfigurationBuilder.class)
                .location(CommonsTestingUtil.tmpDirectory(getClass()));
    }
}
