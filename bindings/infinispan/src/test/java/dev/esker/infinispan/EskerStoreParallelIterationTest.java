package dev.esker.infinispan;

import org.infinispan.commons.test.CommonsTestingUtil;
import org.infinispan.commons.util.Util;
import org.infinispan.configuration.cache.ConfigurationBuilder;
import org.infinispan.persistence.ParallelIterationTest;
import org.testng.annotations.Test;

/** Infinispan's own tests of iterations in several threads. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreParallelIterationTest")
public class EskerStoreParallelIterationTest extends ParallelIterationTest {
    private String directory;

    @Override
    protected void configurePersistence(ConfigurationBuilder builder) {
        directory = CommonsTestingUtil.tmpDirectory(getClass());
        builder.persistence().addStore(EskerStoreConfigurationBuilder.class).location(directory);
    }

    @Override
    protected void teardown() {
        super.teardown();
        Util.recursiveFileRemove(directory);
    }
}
