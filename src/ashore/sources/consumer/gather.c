/* From librdkafka's messages into columns, in a loop of C instead of one Python object a record.
 *
 * What it is: loops over the messages of one call; `native.py` calls them by ctypes.
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

typedef int headers_of(const struct message *, void **headers);
typedef int header_at(const void *headers, size_t index, const char **key, const void **value,
                      size_t *value_size);

struct header { /* HEADER in native.py */
    int64_t key, key_size, value, value_size;
};

enum { NO_HEADERS = -156 }; /* RD_KAFKA_RESP_ERR__NOENT */

/* A key is said to end at its first NUL; one with a NUL inside is longer than that, which can be seen
 * where a value lies behind its key, a NUL between them (`is_behind`; `library.py` has looked). */
static size_t size_of_key(const char *key, const void *value, int is_behind)
{
    return is_behind && value ? (size_t)((const char *)value - key) - 1 : strlen(key);
}

/* Counts the headers of each message, and their bytes; a null stands for a message that is not
 * asked. Returns the index of a message whose headers cannot be read, or -1. */
int64_t ashore_count_headers(const struct message *const *messages, size_t count, headers_of *of,
                             header_at *at, int is_behind, int64_t *counts, int64_t *sizes)
{
    for (size_t i = 0; i < count; i++) {
        void *headers = NULL;
        int error = messages[i] ? of(messages[i], &headers) : NO_HEADERS;
        const char *key;
        const void *value;
        size_t size;
        counts[i] = sizes[i] = 0;
        if (error && error != NO_HEADERS)
            return (int64_t)i;
        while (!error && !at(headers, (size_t)counts[i], &key, &value, &size)) {
            counts[i]++;
            sizes[i] += (int64_t)(size_of_key(key, value, is_behind) + size);
        }
    }
    return -1;
}

/* Requires: `counts` is what `ashore_count_headers` has found. */
void ashore_look_headers(const struct message *const *messages, size_t count, headers_of *of,
                         header_at *at, int is_behind, const int64_t *counts, struct header *rows)
{
    for (size_t i = 0; i < count; i++) {
        void *headers = NULL;
        if (counts[i])
            of(messages[i], &headers);
        for (int64_t index = 0; index < counts[i]; index++) {
            const char *key = "";
            const void *value = NULL;
            size_t size = 0;
            at(headers, (size_t)index, &key, &value, &size);
            *rows++ = (struct header){
                (intptr_t)key, (int64_t)size_of_key(key, value, is_behind), (intptr_t)value,
                (int64_t)size,
            };
        }
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
