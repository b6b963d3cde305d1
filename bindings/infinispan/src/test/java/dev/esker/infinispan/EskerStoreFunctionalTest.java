package dev.esker.infinispan;

import org.infinispan.configuration.cache.PersistenceConfigurationBuilder;
import org.infinispan.persistence.BaseStoreFunctionalTest;
import org.testng.annotations.Test;

/** Infinispan's own tests of a cache with a store. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreFunctionalTest")
public class EskerStoreFunctionalTest extends BaseStoreFunctionalTest {
    @Override
    protected PersistenceConfigurationBuilder createCacheStoreConfig(PersistenceConfigurationBuilder persistence,
            String cacheName, boolean preload) {
        persistence.addStore(EskerStoreConfigurationBuilder.class).preload(preload);
        return persistence;
    }
}
