package dev.esker.ycsb;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;
import java.util.Map;

/**
 * What `esker lab run` wants of a round: a line of JSON on standard input.
 *
 * @param engine the engine's name in the experiment
 * @param phases the names of the phases, as "ycsb load a" and "ycsb a"
 * @param entries the number of records
 * @param operations the operations of a phase that is not a load
 * @param threads the number of client threads
 * @param directory an empty directory
 * @param properties YCSB's properties
 */
@JsonIgnoreProperties(ignoreUnknown = true)
public record Request(
        @JsonProperty(required = true) String engine,
        @JsonProperty(required = true) List<String> phases,
        @JsonProperty(required = true) long entries,
        @JsonProperty(required = true) long operations,
        @JsonProperty(required = true) int threads,
        @JsonProperty(required = true) String directory,
        @JsonProperty(required = true) Map<String, String> properties) {
    /** Returns the store: what follows the last hyphen of the engine's name. */
    public String store() {
        return engine.substring(engine.lastIndexOf('-') + 1);
    }
}
