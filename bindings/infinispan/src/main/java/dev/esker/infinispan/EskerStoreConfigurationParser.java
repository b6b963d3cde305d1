package dev.esker.infinispan;

import org.infinispan.commons.configuration.io.ConfigurationReader;
import org.infinispan.configuration.parsing.CacheParser;
import org.infinispan.configuration.parsing.ConfigurationBuilderHolder;
import org.infinispan.configuration.parsing.ConfigurationParser;
import org.infinispan.configuration.parsing.Namespace;
import org.infinispan.configuration.parsing.ParseUtils;

/**
 * Reads the element {@code esker-store} of a configuration file, with the attributes {@code path} and
 * {@code relative-to} and those of all stores.
 */
@Namespace(root = "esker-store")
@Namespace(uri = EskerStoreConfigurationParser.NAMESPACE + "*", root = "esker-store", since = "16.0")
public final class EskerStoreConfigurationParser implements ConfigurationParser {
    static final String NAMESPACE = "urn:infinispan:config:store:esker:";

    /** Creates it; Infinispan calls this. */
    public EskerStoreConfigurationParser() {}

    @Override
    public void readElement(ConfigurationReader reader, ConfigurationBuilderHolder holder) {
        if (!reader.getLocalName().equals("esker-store")) {
            throw ParseUtils.unexpectedElement(reader);
        }
        EskerStoreConfigurationBuilder builder = holder.getCurrentConfigurationBuilder().persistence()
                .addStore(EskerStoreConfigurationBuilder.class);
        String path = null;
        String relativeTo = null;
        for (int at = 0; at < reader.getAttributeCount(); at++) {
            ParseUtils.requireNoNamespaceAttribute(reader, at);
            switch (reader.getAttributeName(at)) {
                case "path" -> path = reader.getAttributeValue(at);
                case "relative-to" -> relativeTo = ParseUtils.requireAttributeProperty(reader, at);
                default -> CacheParser.parseStoreAttribute(reader, at, builder);
            }
        }
        String location = ParseUtils.resolvePath(path, relativeTo);
        if (location != null) {
            builder.location(location);
        }
        while (reader.inTag()) {
            CacheParser.parseStoreElement(reader, builder);
        }
    }

    @Override
    public Namespace[] getNamespaces() {
        return ParseUtils.getNamespaceAnnotations(getClass());
    }
}
