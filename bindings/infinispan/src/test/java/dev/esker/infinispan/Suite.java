package dev.esker.infinispan;

import java.util.ArrayList;
import java.util.List;
import org.testng.ITestResult;
import org.testng.TestListenerAdapter;
import org.testng.TestNG;

/** Runs Infinispan's tests, which are for TestNG, and prints what failed. */
public final class Suite {
    private static final int TESTS_MIN = 58;

    private Suite() {}

    public static void main(String[] arguments) {
        TestNG suite = new TestNG(false);
        TestListenerAdapter results = new TestListenerAdapter();
        suite.addListener((Object) results);
        suite.setTestClasses(new Class<?>[] {
            EskerStoreTest.class, EskerStoreFunctionalTest.class, EskerStoreFileTest.class,
            EskerStoreParallelIterationTest.class, EskerStoreMultiStoresTest.class, EskerStoreIracTest.class});
        suite.setExcludedGroups("stress");
        suite.run();
        List<ITestResult> failed = new ArrayList<>(results.getFailedTests());
        failed.addAll(results.getSkippedTests());
        failed.addAll(results.getConfigurationFailures());
        for (ITestResult result : failed) {
            System.out.println("FAILED: " + result);
            if (result.getThrowable() != null) {
                result.getThrowable().printStackTrace(System.out);
            }
        }
        int passed = results.getPassedTests().size();
        System.out.println(passed + " tests successful, " + failed.size() + " failed");
        System.exit(failed.isEmpty() && passed >= TESTS_MIN ? 0 : 1);
    }
}
