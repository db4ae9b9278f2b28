/* What a database does, through the C API: "write", in another process "read" and "fork", on another drive
 * "store". */

#include "imbrex.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static imbrex_drive *drive;

static void need(imbrex_status got, imbrex_status expected, int line) {
  if (got != expected) {
    fprintf(stderr, "line %d: status %d, expected %d: %s\n", line, (int)got, (int)expected,
            imbrex_last_error());
    exit(1);
  }
}

#define OK(call) need(call, IMBREX_STATUS_OK, __LINE__)
#define FAILS(status, call) need(call, status, __LINE__)
#define TRUE(what) \
  do { \
    if (!(what)) { \
      fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
      exit(1); \
    } \
  } while (0)

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

static void put(const char *path, uint8_t kind, const char *text) {
  imbrex_hints hints;
  imbrex_writer *writer = NULL;
  memset(&hints, 0, sizeof hints);
  hints.kind = kind;
  OK(imbrex_writer_create(drive, path, &hints, &writer));
  OK(imbrex_writer_append(writer, bytes(text), strlen(text)));
  OK(imbrex_writer_sync(writer));
  OK(imbrex_writer_close(writer));
}

static void expect(const char *path, const char *text) {
  imbrex_reader *reader = NULL;
  uint8_t buffer[256];
  size_t got = 0;
  OK(imbrex_reader_open(drive, path, &reader));
  OK(imbrex_reader_read_at(reader, 0, buffer, sizeof buffer, &got));
  TRUE(got == strlen(text) && memcmp(buffer, text, got) == 0);
  OK(imbrex_reader_read_at(reader, 1000000, buffer, sizeof buffer, &got));
  TRUE(got == 0);
  OK(imbrex_reader_read_at(reader, 0, NULL, 0, &got));
  FAILS(IMBREX_STATUS_INVALID, imbrex_reader_read_at(reader, 0, NULL, 1, &got));
  OK(imbrex_reader_close(reader));
}

/* Each thread appends to a log of its own, in small pieces. */
static void *append_many(void *number) {
  char path[64];
  imbrex_hints hints;
  imbrex_writer *writer = NULL;
  uint64_t len = 0;
  int i;
  memset(&hints, 0, sizeof hints);
  hints.kind = IMBREX_KIND_LOG;
  snprintf(path, sizeof path, "/db/%d.log", *(int *)number);
  OK(imbrex_writer_create(drive, path, &hints, &writer));
  for (i = 0; i < 50000; i++) {
    OK(imbrex_writer_append(writer, bytes("sixteen bytes..."), 16));
    if (i % 10000 == 0) OK(imbrex_writer_sync(writer));
  }
  OK(imbrex_writer_len(writer, &len));
  TRUE(len == 800000);
  OK(imbrex_writer_sync(writer));
  OK(imbrex_writer_close(writer));
  return NULL;
}

/* As threads write a log at places of their own: each byte once, in any order. */
static void write_in_any_order(const char *path) {
  imbrex_hints hints;
  imbrex_writer *writer = NULL;
  memset(&hints, 0, sizeof hints);
  hints.kind = IMBREX_KIND_LOG;
  OK(imbrex_writer_create(drive, path, &hints, &writer));
  OK(imbrex_writer_fill_at(writer, 6, bytes("world"), 5));
  expect(path, "");
  OK(imbrex_writer_fill_at(writer, 0, bytes("hello "), 6));
  FAILS(IMBREX_STATUS_INVALID, imbrex_writer_fill_at(writer, 10, bytes("ds"), 2));
  FAILS(IMBREX_STATUS_INVALID, imbrex_writer_fill_at(NULL, 0, bytes("x"), 1));
  OK(imbrex_writer_sync(writer));
  OK(imbrex_writer_close(writer));
  OK(imbrex_writer_open(drive, path, &writer));
  FAILS(IMBREX_STATUS_INVALID, imbrex_writer_fill_at(writer, UINT64_MAX, bytes("x"), 1));
  FAILS(IMBREX_STATUS_IO, imbrex_writer_sync(writer));
  OK(imbrex_writer_close(writer));
}

static void write_story(void) {
  pthread_t threads[3];
  int numbers[3] = {1, 2, 3};
  int i;
  imbrex_writer *writer = NULL;
  imbrex_drive_stats stats;
  FAILS(IMBREX_STATUS_NOT_FOUND, imbrex_writer_create(drive, "/db/x", NULL, &writer));
  TRUE(strstr(imbrex_last_error(), "/db") != NULL);
  FAILS(IMBREX_STATUS_INVALID, imbrex_writer_create(drive, NULL, NULL, &writer));
  FAILS(IMBREX_STATUS_INVALID, imbrex_writer_append(NULL, bytes("x"), 1));
  FAILS(IMBREX_STATUS_INVALID, imbrex_make_dir(drive, "\xff\xfe", true));
  OK(imbrex_make_dir(drive, "/db/lost", true));
  OK(imbrex_lock(drive, "/db/LOCK"));
  FAILS(IMBREX_STATUS_LOCKED, imbrex_lock(drive, "/db/LOCK"));
  for (i = 0; i < 3; i++) TRUE(pthread_create(&threads[i], NULL, append_many, &numbers[i]) == 0);
  for (i = 0; i < 3; i++) TRUE(pthread_join(threads[i], NULL) == 0);
  write_in_any_order("/db/any.log");
  put("/db/CURRENT", IMBREX_KIND_METADATA, "MANIFEST-1\n");
  put("/db/000001.dbtmp", IMBREX_KIND_OTHER, "MANIFEST-2\n");
  OK(imbrex_rename(drive, "/db/000001.dbtmp", "/db/CURRENT"));
  put("/db/000002.sst", IMBREX_KIND_TABLE, "a small table");
  OK(imbrex_set_level(drive, "/db/000002.sst", 3));
  OK(imbrex_link(drive, "/db/000002.sst", "/db/linked"));
  OK(imbrex_unlink(drive, "/db/000002.sst"));
  OK(imbrex_writer_open(drive, "/db/linked", &writer));
  OK(imbrex_writer_append(writer, bytes(" and more"), 9));
  OK(imbrex_writer_write_at(writer, 2, bytes("SMALL"), 5));
  OK(imbrex_writer_truncate(writer, 18));
  OK(imbrex_writer_close(writer));
  FAILS(IMBREX_STATUS_NOT_EMPTY, imbrex_remove_dir(drive, "/db"));
  OK(imbrex_remove_dir(drive, "/db/lost"));
  OK(imbrex_sync_names(drive));
  OK(imbrex_drive_get_stats(drive, &stats));
  TRUE(stats.written_bytes >= 2400000 && stats.free_bytes > 0);
  TRUE(stats.file_written_bytes >= 2400000 && stats.commits > 0);
  OK(imbrex_unlock(drive, "/db/LOCK"));
  puts("written");
}

static void read_story(void) {
  imbrex_names *names = NULL;
  imbrex_file_stat stat;
  imbrex_reader *reader = NULL;
  uint8_t *all = (uint8_t *)malloc(800000);
  size_t got = 0, i;
  uint64_t id = 0;
  OK(imbrex_list(drive, "/db", &names));
  TRUE(imbrex_names_count(names) == 7);
  TRUE(strcmp(imbrex_names_get(names, 0), "1.log") == 0);
  TRUE(imbrex_names_get(names, 7) == NULL);
  OK(imbrex_names_close(names));
  expect("/db/CURRENT", "MANIFEST-2\n");
  expect("/db/any.log", "hello world");
  expect("/db/linked", "a SMALL table and ");
  OK(imbrex_stat(drive, "/db/3.log", &stat));
  TRUE(stat.len_bytes == 800000 && !stat.is_dir && stat.link_count == 1 && stat.mtime_s > 0);
  OK(imbrex_stat(drive, "/db", &stat));
  TRUE(stat.is_dir);
  FAILS(IMBREX_STATUS_NOT_FOUND, imbrex_stat(drive, "/db/nothing", &stat));
  OK(imbrex_reader_open(drive, "/db/2.log", &reader));
  OK(imbrex_reader_id(reader, &id));
  TRUE(id != 0);
  OK(imbrex_reader_read_at(reader, 0, all, 800000, &got));
  TRUE(got == 800000);
  for (i = 0; i < got; i += 16) TRUE(memcmp(all + i, "sixteen bytes...", 16) == 0);
  OK(imbrex_reader_close(reader));
  free(all);
  puts("read");
}

/* A child has copies of its parent's handles, and what it does with them must not reach the drive. */
static void in_child(const char *path, imbrex_writer *writer, imbrex_reader *reader) {
  const imbrex_status busy = IMBREX_STATUS_BUSY;
  imbrex_drive *again = NULL;
  imbrex_writer *other = NULL;
  imbrex_file_stat stat;
  uint8_t buffer[16];
  size_t got = 0;
  FAILS(busy, imbrex_writer_append(writer, bytes("child"), 5));
  TRUE(strstr(imbrex_last_error(), "a child that it forked") != NULL);
  FAILS(busy, imbrex_writer_sync(writer));
  FAILS(busy, imbrex_writer_create(drive, "/db/child", NULL, &other));
  FAILS(busy, imbrex_unlink(drive, "/db/CURRENT"));
  FAILS(busy, imbrex_stat(drive, "/db/CURRENT", &stat));
  FAILS(busy, imbrex_reader_read_at(reader, 0, buffer, sizeof buffer, &got));
  FAILS(busy, imbrex_drive_open(path, NULL, &again));
  FAILS(busy, imbrex_reader_close(reader));
  FAILS(busy, imbrex_writer_close(writer));
  FAILS(busy, imbrex_drive_sync(drive));
  FAILS(busy, imbrex_drive_close(drive));
}

static void fork_story(const char *path) {
  imbrex_writer *writer = NULL;
  imbrex_reader *reader = NULL;
  imbrex_drive *again = NULL;
  pid_t child;
  int status = 0;
  OK(imbrex_writer_create(drive, "/db/forked.log", NULL, &writer));
  OK(imbrex_reader_open(drive, "/db/CURRENT", &reader));
  OK(imbrex_writer_append(writer, bytes("parent"), 6));
  child = fork();
  TRUE(child >= 0);
  if (child == 0) {
    in_child(path, writer, reader);
    _exit(0);
  }
  TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  /* The child has not unlocked it, and is no reason to close it. */
  OK(imbrex_drive_open(path, NULL, &again));
  OK(imbrex_drive_close(again));
  OK(imbrex_writer_append(writer, bytes(" alone"), 6));
  OK(imbrex_writer_sync(writer));
  OK(imbrex_writer_close(writer));
  OK(imbrex_reader_close(reader));
  expect("/db/forked.log", "parent alone");
  puts("forked");
}

/* Another drive, with a store on it: "store". */
static void store_story(const char *path) {
  imbrex_store *store = NULL;
  imbrex_keyspace *fruit = NULL;
  imbrex_batch *batch = NULL;
  imbrex_cursor *cursor = NULL;
  imbrex_entry entry;
  uint8_t buffer[3];
  size_t len = 0;
  OK(imbrex_store_open(path, NULL, NULL, &store));
  OK(imbrex_keyspace_open(store, "fruit", true, &fruit));
  OK(imbrex_put(fruit, bytes("apple"), 5, bytes("green"), 5, true));
  OK(imbrex_batch_open(&batch));
  OK(imbrex_batch_put(batch, fruit, bytes("banana"), 6, bytes("yellow"), 6));
  OK(imbrex_batch_put(batch, fruit, bytes("cherry"), 6, NULL, 0));
  OK(imbrex_batch_write(batch, false));
  OK(imbrex_batch_close(batch));
  OK(imbrex_delete(fruit, bytes("apple"), 5, false));
  OK(imbrex_get(fruit, bytes("banana"), 6, buffer, sizeof buffer, &len));
  TRUE(len == 6 && memcmp(buffer, "yel", 3) == 0);
  FAILS(IMBREX_STATUS_NOT_FOUND, imbrex_get(fruit, bytes("apple"), 5, NULL, 0, &len));
  OK(imbrex_cursor_open(fruit, &cursor));
  OK(imbrex_cursor_seek(cursor, NULL, 0, &entry));
  TRUE(entry.key_len_bytes == 6 && memcmp(entry.key, "banana", 6) == 0);
  TRUE(entry.value_len_bytes == 6 && memcmp(entry.value, "yellow", 6) == 0);
  OK(imbrex_cursor_next(cursor, &entry));
  TRUE(entry.key != NULL && entry.value != NULL && entry.value_len_bytes == 0);
  OK(imbrex_cursor_seek(cursor, entry.key, entry.key_len_bytes, &entry));
  TRUE(entry.key_len_bytes == 6 && memcmp(entry.key, "cherry", 6) == 0);
  OK(imbrex_cursor_next(cursor, &entry));
  TRUE(entry.key == NULL && entry.value == NULL && entry.key_len_bytes == 0);
  OK(imbrex_cursor_close(cursor));
  OK(imbrex_keyspace_close(fruit));
  OK(imbrex_store_close(store));
  puts("stored");
}

/* Runs when the thread's own memory is gone already. */
static void last_words(void) {
  imbrex_file_stat stat;
  if (imbrex_stat(NULL, "/db", &stat) == IMBREX_STATUS_INVALID) puts(imbrex_last_error());
}

int main(int argc, char **argv) {
  TRUE(argc == 3 && atexit(last_words) == 0 && strlen(imbrex_version()) > 0);
  if (strcmp(argv[2], "store") == 0) {
    store_story(argv[1]);
    return 0;
  }
  OK(imbrex_drive_open(argv[1], NULL, &drive));
  if (strcmp(argv[2], "write") == 0) write_story();
  if (strcmp(argv[2], "read") == 0) read_story();
  if (strcmp(argv[2], "fork") == 0) fork_story(argv[1]);
  OK(imbrex_drive_close(drive));
  return 0;
}
