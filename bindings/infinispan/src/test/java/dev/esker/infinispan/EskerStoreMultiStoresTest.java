package dev.esker.infinispan;

import org.infinispan.commons.test.CommonsTestingUtil;
import org.infinispan.commons.util.Util;
import org.infinispan.configuration.cache.PersistenceConfigurationBuilder;
import org.infinispan.persistence.MultiStoresFunctionalTest;
import org.testng.annotations.AfterClass;
import org.testng.annotations.Test;

/** Infinispan's own tests of several stores in one process. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreMultiStoresTest")
public class EskerStoreMultiStoresTest extends MultiStoresFunctionalTest<EskerStoreConfigurationBuilder> {
    private final String directory = CommonsTestingUtil.tmpDirectory(getClass());

    @AfterClass(alwaysRun = true)
    protected void removeDirectory() {
        Util.recursiveFileRemove(directory);
    }

    @Override
    protected EskerStoreConfigurationBuilder buildCacheStoreConfig(PersistenceConfigurationBuilder persistence,
            String discriminator) {
        EskerStoreConfigurationBuilder store = persistence.addStore(EskerStoreConfigurationBuilder.class);
        store.location(directory + "/" + discriminator);
        return store;
    }
}
