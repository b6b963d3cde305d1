package dev.esker.infinispan;

import static org.testng.AssertJUnit.assertEquals;

import java.util.Properties;
import org.infinispan.commons.CacheConfigurationException;
import org.infinispan.commons.dataconversion.MediaType;
import org.infinispan.configuration.cache.Configuration;
import org.infinispan.configuration.parsing.ParserRegistry;
import org.testng.annotations.Test;

/** The store in a configuration file, read and written. */
@Test(groups = "unit", testName = "persistence.esker.EskerStoreFileTest")
public class EskerStoreFileTest {
    private static EskerStoreConfiguration read(String text) {
        Configuration cache = new ParserRegistry().parse(text, MediaType.APPLICATION_XML)
                .getNamedConfigurationBuilders().get("words").build();
        return (EskerStoreConfiguration) cache.persistence().stores().get(0);
    }

    public void testUnknownPropertyIsRefused() {
        Properties properties = new Properties();
        properties.setProperty("memory.byte", "67108864");
        try {
            SharedRuntime.acquire(properties);
        } catch (CacheConfigurationException refused) {
            assertEquals(refused.getMessage(), true, refused.getMessage().contains("memory.byte;"));
            return;
        }
        throw new AssertionError("the property was accepted");
    }

    public void testReadAndWrite() {
        String text = """
                <infinispan>
                  <cache-container>
                    <local-cache name="words">
                      <persistence>
                        <esker-store xmlns="urn:infinispan:config:store:esker:16.0" path="somewhere" preload="true">
                          <property name="memory.bytes">67108864</property>
                        </esker-store>
                      </persistence>
                    </local-cache>
                  </cache-container>
                </infinispan>
                """;
        EskerStoreConfiguration store = read(text);
        assertEquals("somewhere", store.location());
        assertEquals("67108864", store.properties().getProperty("memory.bytes"));
        assertEquals(true, store.preload());
        Configuration cache = new ParserRegistry().parse(text, MediaType.APPLICATION_XML)
                .getNamedConfigurationBuilders().get("words").build();
        String written = new ParserRegistry().serialize("words", cache);
        assertEquals(written, true, written.contains("esker-store") && written.contains("somewhere")
                && written.contains("67108864"));
    }
}
