import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;

import dev.esker.kafka.streams.EskerStores;
import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.implementation.MethodDelegation;

/**
 * An agent for Kafka's own tests, which name their stores in the program: each persistent store of Kafka's class
 * {@code Stores} becomes the one with the same name and arguments of {@link EskerStores}.
 */
public final class StoresAgent {
    private StoresAgent() {}

    /** Called before the tests. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        new AgentBuilder.Default()
                .with(AgentBuilder.TypeStrategy.Default.REDEFINE)
                .with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly())
                .type(named("org.apache.kafka.streams.state.Stores"))
                .transform((builder, type, loader, module, domain) -> builder
                        .method(nameStartsWith("persistent")).intercept(MethodDelegation.to(EskerStores.class)))
                .installOn(instrumentation);
    }
}
