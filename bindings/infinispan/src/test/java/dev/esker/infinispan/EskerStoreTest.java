package dev.esker.infinispan;

import org.infinispan.commons.test.CommonsTestingUtil;
import org.infinispan.commons.util.Util;
import org.infinispan.configuration.cache.Configuration;
import org.infinispan.configuration.cache.ConfigurationBuilder;
import org.infinispan.persistence.BaseNonBlockingStoreTest;
import org.infinispan.persistence.spi.NonBlockingStore;
import org.testng.annotations.AfterClass;
import org.testng.annotations.Factory;
import org.testng.annotations.Test;

/** Infinispan's own tests of a store, with and without segments. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreTest")
public class EskerStoreTest extends BaseNonBlockingStoreTest {
    private final String directory = CommonsTestingUtil.tmpDirectory(getClass());
    private boolean segmented;

    private static EskerStoreTest of(boolean segmented) {
        EskerStoreTest test = new EskerStoreTest();
        test.segmented = segmented;
        return test;
    }

    @Factory
    public Object[] factory() {
        return new Object[] {of(false), of(true)};
    }

    @AfterClass(alwaysRun = true)
    protected void removeDirectory() {
        Util.recursiveFileRemove(directory);
    }

    @Override
    protected String parameters() {
        return "[" + segmented + "]";
    }

    @Override
    protected Configuration buildConfig(ConfigurationBuilder builder) {
        return builder.persistence().addStore(EskerStoreConfigurationBuilder.class).segmented(segmented)
                .location(directory).build();
    }

    @Override
    protected NonBlockingStore<Object, Object> createStore() {
        removeDirectory();
        return new EskerStore<>();
    }
}
