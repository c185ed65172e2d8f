import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** What --security=FILE tells, as the options of this client. */
final class Security {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final long HOUR_MS = 3_600_000;
    private static final Map<String, String> GIVEN = new HashMap<>();

    private Security() {}

    static void read(String file) throws IOException {
        for (String line : Files.readAllLines(Paths.get(file))) {
            int at = line.indexOf('=');
            GIVEN.put(line.substring(0, at), line.substring(at + 1));
        }
    }

    static Properties to(String bootstrap) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        for (String name : List.of("security.protocol", "sasl.mechanism")) {
            if (GIVEN.containsKey(name)) {
                options.put(name, GIVEN.get(name));
            }
        }
        for (String store : List.of("truststore", "keystore")) {
            if (GIVEN.containsKey("ssl." + store + ".location")) {
                options.put("ssl." + store + ".location", GIVEN.get("ssl." + store + ".location"));
                options.put("ssl." + store + ".password", GIVEN.get("store.password"));
                options.put("ssl." + store + ".type", "PKCS12");
            }
        }
        String mechanism = GIVEN.getOrDefault("sasl.mechanism", "");
        if (mechanism.equals("OAUTHBEARER")) {
            options.put("sasl.jaas.config", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
            options.put("sasl.login.callback.handler.class", GivenToken.class.getName());
        } else if (!mechanism.isEmpty()) {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            options.put("sasl.jaas.config", MODULES + module + " required username=\"" + GIVEN.get("sasl.username")
                    + "\" password=\"" + GIVEN.get("sasl.password") + "\";");
        }
        return options;
    }

    /** Hands out the token that was given. */
    public static final class GivenToken implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> options, String mechanism, List<AppConfigurationEntry> jaas) {}

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) callback).token(new Token());
                } else if (!(callback instanceof SaslExtensionsCallback)) {
                    throw new UnsupportedCallbackException(callback);
                }
            }
        }

        @Override
        public void close() {}
    }

    private static final class Token implements OAuthBearerToken {
        private final long made = System.currentTimeMillis();

        @Override
        public String value() {
            return GIVEN.get("token");
        }

        @Override
        public Set<String> scope() {
            return Collections.emptySet();
        }

        @Override
        public long lifetimeMs() {
            return made + HOUR_MS;
        }

        @Override
        public String principalName() {
            return "given";
        }

        @Override
        public Long startTimeMs() {
            return made;
        }
    }
}
