/* From librdkafka's messages into columns, in a loop of C instead of one Python object a record.
 *
 * What it is: three loops over the messages of one call; `native.py` calls them by ctypes.
 * What it promises: it allocates nothing and keeps nothing; every pointer is the caller's.
 * What it must not know: Python, Arrow, librdkafka's headers. The struct below is public and stable
 * (`rd_kafka_message_t` of librdkafka's rdkafka.h); functions of the library come as arguments.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct message {
    int error;
    void *topic;
    int32_t partition;
    void *value; /* of an error: its text */
    size_t value_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *private_data;
};

struct row { /* ROW in native.py */
    int64_t error, topic, partition, offset, time_ms, key, key_size, value, value_size;
};

void ashore_look(struct message **messages, size_t count,
                 int64_t (*time_of)(const struct message *, int *), struct row *rows)
{
    for (size_t i = 0; i < count; i++) {
        const struct message *each = messages[i];
        rows[i] = (struct row){
            each->error, (intptr_t)each->topic, each->partition, each->offset,
            time_of(each, NULL), (intptr_t)each->key, (int64_t)each->key_size,
            (intptr_t)each->value, (int64_t)each->value_size,
        };
    }
}

void ashore_copy(const void *const *sources, const size_t *sizes, size_t count, char *target)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(target, sources[i], sizes[i]);
        target += sizes[i];
    }
}

void ashore_let_go(struct message **messages, size_t count, void (*destroy)(struct message *))
{
    for (size_t i = 0; i < count; i++)
        destroy(messages[i]);
}
