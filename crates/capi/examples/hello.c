/* Makes a store on an emulated drive, puts two keys, and reads them backwards. */
#include <imbrex.h>
#include <stdio.h>

#define OK(call) if ((call) != IMBREX_STATUS_OK) return fprintf(stderr, "%s\n", imbrex_last_error()), 1
#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

int main(int argc, char **argv) {
  imbrex_store *store;
  imbrex_keyspace *fruit;
  imbrex_cursor *cursor;
  imbrex_entry entry;
  if (argc != 2) return fprintf(stderr, "usage: hello NEW_IMAGE\n"), 2;
  OK(imbrex_store_create(argv[1], NULL, NULL, NULL, 2ull << 30));
  OK(imbrex_store_open(argv[1], NULL, NULL, &store));
  OK(imbrex_keyspace_open(store, "fruit", true, &fruit));
  OK(imbrex_put(fruit, BYTES("apple"), BYTES("red"), false));
  OK(imbrex_put(fruit, BYTES("banana"), BYTES("yellow"), true)); /* durable, and so is the apple */
  OK(imbrex_cursor_open(fruit, &cursor));
  OK(imbrex_cursor_seek_for_prev(cursor, NULL, 0, &entry)); /* the last one */
  while (entry.key) {
    printf("%.*s\n", (int)entry.key_len_bytes, (const char *)entry.key);
    OK(imbrex_cursor_prev(cursor, &entry));
  }
  OK(imbrex_cursor_close(cursor));
  OK(imbrex_keyspace_close(fruit));
  OK(imbrex_store_close(store));
  return 0;
}
