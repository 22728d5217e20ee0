import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Every message of Kafka's own topics in every version, filled, as Kafka itself writes it and shows it: JSON lines of
 * {"group", "role", "number", "version", "hex", "json"}. Run with the jars of a broker; makes tests/data/topics/messages.jsonl.gz.
 */
public class TopicMessages {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        coordinator("offsets", "org.apache.kafka.coordinator.group.generated");
        coordinator("transactions", "org.apache.kafka.coordinator.transaction.generated");
        coordinator("shares", "org.apache.kafka.coordinator.share.generated");
        framed("metadata", "org.apache.kafka.common.metadata");
        framed("remote", "org.apache.kafka.server.log.remote.metadata.storage.generated");
    }

    static void framed(String group, String where) throws Exception {
        var types = Class.forName(where + ".MetadataRecordType");
        for (Object type : types.getEnumConstants()) {
            versions(group, "value", (ApiMessage) types.getMethod("newMetadataRecord").invoke(type));
        }
    }

    static void coordinator(String group, String where) throws Exception {
        var types = Class.forName(where + ".CoordinatorRecordType");
        for (Object type : types.getEnumConstants()) {
            versions(group, "key", (ApiMessage) types.getMethod("newRecordKey").invoke(type));
            versions(group, "value", (ApiMessage) types.getMethod("newRecordValue").invoke(type));
        }
    }

    static void versions(String group, String role, ApiMessage kind) throws Exception {
        short last = role.equals("key") ? kind.lowestSupportedVersion() : kind.highestSupportedVersion();
        for (short version = kind.lowestSupportedVersion(); version <= last; version++) {
            for (int turn = 0; turn < 2; turn++) {
                var message = kind.getClass().getDeclaredConstructor().newInstance();
                if (turn == 1) fill(message, message, version);
                if (role.equals("key") && version > 0) continue;
                ByteBuffer bytes;
                try {
                    bytes = MessageUtil.toByteBufferAccessor(message, version).buffer();
                } catch (RuntimeException unset) {
                    continue;  // a field without a value that must have one
                }
                byte[] data = new byte[bytes.remaining()];
                bytes.get(data);
                ObjectNode line = JSON.createObjectNode();
                line.put("group", group).put("role", role).put("number", kind.apiKey()).put("version", version);
                line.put("hex", HexFormat.of().formatHex(data));
                line.set("json", json(message, version));
                OUT.println(line);
            }
        }
    }

    static JsonNode json(Message message, short version) throws Exception {
        var converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class).invoke(null, message, version);
    }

    /** Gives every field that this version can carry a value that is not its default. */
    static void fill(Message whole, Object part, short version) throws Exception {
        int number = 1;
        for (Field field : part.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("_") || field.getName().equals("prev")
                || field.getName().equals("next")) continue;
            field.setAccessible(true);
            Object before = field.get(part);
            field.set(part, value(field.getType(), field.getGenericType(), whole, version, ++number));
            try {
                MessageUtil.toByteBufferAccessor(whole, version);
            } catch (RuntimeException cannot) {
                field.set(part, before);
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Class<?> raw, Type type, Message whole, short version, int number) throws Exception {
        if (raw == boolean.class) return true;
        if (raw == byte.class) return (byte) number;
        if (raw == short.class) return (short) (300 + number);
        if (raw == int.class) return 30_000 + number;
        if (raw == long.class) return 5_000_000_000L + number;
        if (raw == double.class) return number + 0.5;
        if (raw == String.class) return "text-é-" + number;
        if (raw == byte[].class) return new byte[] {0, (byte) 0xff, (byte) number};
        if (raw == ByteBuffer.class) return ByteBuffer.wrap(new byte[] {0, (byte) 0xff, (byte) number});
        if (raw == Uuid.class) return new Uuid(0x0102030405060708L, number);
        if (List.class.isAssignableFrom(raw)) {
            Type element = ((ParameterizedType) type).getActualTypeArguments()[0];
            List list = new ArrayList();
            for (int i = 0; i < 2; i++) list.add(element((Class<?>) element, number + i, version));
            return list;
        }
        if (java.util.AbstractCollection.class.isAssignableFrom(raw)) {
            var collection = (java.util.Collection) raw.getDeclaredConstructor().newInstance();
            Type element = ((ParameterizedType) raw.getGenericSuperclass()).getActualTypeArguments()[0];
            collection.add(element((Class<?>) element, number, version));
            return collection;
        }
        return element(raw, number, version);
    }

    static Object element(Class<?> raw, int number, short version) throws Exception {
        if (raw == Integer.class) return 30_000 + number;
        if (raw == Long.class) return 5_000_000_000L + number;
        if (raw == Short.class) return (short) (300 + number);
        if (raw == Byte.class) return (byte) number;
        if (raw == String.class) return "element-" + number;
        if (raw == Uuid.class) return new Uuid(0x0102030405060708L, number);
        Object part = raw.getDeclaredConstructor().newInstance();
        fill((Message) part, part, version);
        return part;
    }
}
