package dev.esker.infinispan;

import org.infinispan.commons.configuration.io.ConfigurationWriter;
import org.infinispan.commons.util.Version;
import org.infinispan.configuration.serializing.AbstractStoreSerializer;
import org.infinispan.configuration.serializing.ConfigurationSerializer;

/** Writes the configuration of a store to a file. */
public final class EskerStoreConfigurationSerializer extends AbstractStoreSerializer
        implements ConfigurationSerializer<EskerStoreConfiguration> {
    /** Creates it; Infinispan calls this. */
    public EskerStoreConfigurationSerializer() {}

    @Override
    public void serialize(ConfigurationWriter writer, EskerStoreConfiguration configuration) {
        writer.writeStartElement(EskerStoreConfiguration.Element.STORE);
        writer.writeDefaultNamespace(EskerStoreConfigurationParser.NAMESPACE + Version.getMajorMinor());
        configuration.attributes().write(writer);
        writeCommonStoreSubAttributes(writer, configuration);
        writeCommonStoreElements(writer, configuration);
        writer.writeEndElement();
    }
}
