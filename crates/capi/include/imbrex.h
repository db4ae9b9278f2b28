/*
 * Imbrex: a file system for databases, or a store of keys and values, on a disk whose tracks overlap.
 *
 * Conventions
 *
 *   Errors      Every call that can fail returns an imbrex_status; IMBREX_STATUS_OK is 0. imbrex_last_error()
 *               then says in words what happened to the calling thread's last failed call. Results go
 *               to out parameters, which are written only on success.
 *   Ownership   What an out parameter receives belongs to the caller, who gives it back to the call
 *               named in its comment, once; that call takes it also when it fails. Strings and buffers
 *               that are passed in belong to the caller and are not kept. A writer, a reader, a listing
 *               or a keyspace, a batch, a cursor may outlive the imbrex_drive or imbrex_store handle that
 *               it came from: the drive is closed when the last of them is.
 *   Strings     NUL-terminated UTF-8. Paths are absolute or not, that is the same: there is no working
 *               directory, "a/b" is "/a/b". A name has at most 255 bytes, a path 4096.
 *   Lengths     In bytes, uint64_t in files and size_t in memory. NULL is good for a buffer of 0 bytes.
 *   Threads     Every call may be made from any thread, with any handle, at the same time as any other;
 *               only giving a handle back must be the last thing done with it, and a batch or a cursor
 *               is used by one thread at a time. imbrex_last_error() is the thread's own.
 *   Durability  Nothing is durable before a sync says so: neither bytes nor names. A process that dies
 *               is a power cut, because what was appended and not synced lies in its memory. After one,
 *               a file holds a prefix of what was appended, at least what was synced; names are as they
 *               were at some moment, with every change up to the last sync that covered them; a rename
 *               replaced its target or did not. imbrex_writer_sync() covers the file's bytes, its name
 *               and every change of names before the file's own last one, imbrex_sync_names() every change.
 *               Of a store, what was put or deleted with `sync` is there after a power cut, and all that
 *               was written before it; of later writes a prefix.
 *   Processes   A drive is open in one process at a time; others get IMBREX_STATUS_BUSY. Within a process,
 *               opening it again gives another handle of the same drive. A child that it forks cannot use
 *               them: every call with one fails with IMBREX_STATUS_BUSY and touches nothing, also the call
 *               that takes it back.
 *   Bugs        No exception or panic leaves a call. After one inside, or in work in the background, the
 *               drive refuses further writes with IMBREX_STATUS_BUG, and nothing more is written to it.
 *
 * Generated from crates/capi; do not edit.
 */


#ifndef IMBREX_H
#define IMBREX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 A file appended in small pieces and read only at recovery: a write-ahead log, a manifest.
 */
#define IMBREX_KIND_LOG 1

/*
 A file written once and placed whole.
 */
#define IMBREX_KIND_TABLE 2

/*
 A small file, rewritten often.
 */
#define IMBREX_KIND_METADATA 3

/*
 Any other file.
 */
#define IMBREX_KIND_OTHER 4

/*
 What became of a call. The numbers never change.
 */
typedef enum imbrex_status {
  /*
   Done.
   */
  IMBREX_STATUS_OK = 0,
  /*
   No such file or directory, no such keyspace, or a key without a value.
   */
  IMBREX_STATUS_NOT_FOUND = 1,
  /*
   The name is taken.
   */
  IMBREX_STATUS_EXISTS = 2,
  /*
   A file where a directory is needed.
   */
  IMBREX_STATUS_NOT_A_DIRECTORY = 3,
  /*
   A directory where a file is needed.
   */
  IMBREX_STATUS_IS_A_DIRECTORY = 4,
  /*
   The directory holds something.
   */
  IMBREX_STATUS_NOT_EMPTY = 5,
  /*
   An argument that cannot be: NULL, no UTF-8, no path, no kind, a key that is too long.
   */
  IMBREX_STATUS_INVALID = 6,
  /*
   The lock is held.
   */
  IMBREX_STATUS_LOCKED = 7,
  /*
   Another process has the drive open.
   */
  IMBREX_STATUS_BUSY = 8,
  /*
   The drive is full; what was asked for has not happened.
   */
  IMBREX_STATUS_NO_SPACE = 9,
  /*
   Something on the drive is damaged.
   */
  IMBREX_STATUS_CORRUPT = 10,
  /*
   The drive failed.
   */
  IMBREX_STATUS_IO = 11,
  /*
   The drive holds something else, another layout, or was written by a newer program.
   */
  IMBREX_STATUS_UNSUPPORTED = 12,
  /*
   An earlier failure left unknown what is durable; close the drive and open it again.
   */
  IMBREX_STATUS_POISONED = 13,
  /*
   A bug in this library; the drive takes no more writes.
   */
  IMBREX_STATUS_BUG = 14,
} imbrex_status;

/*
 Writes to any keyspaces of one store that take effect together, in order, or not at all.
 */
typedef struct imbrex_batch imbrex_batch;

/*
 A cursor over a keyspace as it was when the cursor was opened.
 */
typedef struct imbrex_cursor imbrex_cursor;

/*
 A drive that is open.
 */
typedef struct imbrex_drive imbrex_drive;

/*
 A keyspace that is open.
 */
typedef struct imbrex_keyspace imbrex_keyspace;

/*
 The names in a directory.
 */
typedef struct imbrex_names imbrex_names;

/*
 A file open for reading.
 */
typedef struct imbrex_reader imbrex_reader;

/*
 A store that is open.
 */
typedef struct imbrex_store imbrex_store;

/*
 A file open for writing.
 */
typedef struct imbrex_writer imbrex_writer;

/*
 Where a cursor stands. Key and value are the cursor's, until the next call with it.
 */
typedef struct imbrex_entry {
  /*
   NULL after the last entry, and then all else is 0.
   */
  const uint8_t *key;
  /*
   How long it is.
   */
  size_t key_len_bytes;
  /*
   Not NULL where there is a key, also if it is empty.
   */
  const uint8_t *value;
  /*
   How long it is.
   */
  size_t value_len_bytes;
} imbrex_entry;

/*
 A power cut that an emulated drive shall meet, for tests.
 */
typedef struct imbrex_power_cut {
  /*
   So many writes, flushes and resets of zones complete; the next is on its way.
   */
  uint64_t after_event_count;
  /*
   Decides what of the unflushed writes is on the platter.
   */
  uint64_t seed;
  /*
   The drive's volatile write cache.
   */
  uint64_t cache_bytes;
} imbrex_power_cut;

/*
 What a drive holds and what it has done since it was opened.
 */
typedef struct imbrex_drive_stats {
  /*
   All that files could ever use.
   */
  uint64_t capacity_bytes;
  /*
   Held by files.
   */
  uint64_t live_bytes;
  /*
   Dead, in zones and bands that are not free yet.
   */
  uint64_t dead_bytes;
  /*
   Can be written now.
   */
  uint64_t free_bytes;
  /*
   Requests to read.
   */
  uint64_t reads;
  /*
   Requests to write.
   */
  uint64_t writes;
  /*
   Flushes of the drive's cache.
   */
  uint64_t flushes;
  /*
   Seeks of the arm.
   */
  uint64_t seeks;
  /*
   Bytes read from the platter.
   */
  uint64_t read_bytes;
  /*
   Bytes written to the platter.
   */
  uint64_t written_bytes;
  /*
   Of these, what the recording added: read-modify-write.
   */
  uint64_t added_read_bytes;
  /*
   The same of what was written.
   */
  uint64_t added_written_bytes;
  /*
   How long the modelled drive was busy.
   */
  uint64_t busy_ns;
  /*
   Bytes written for files: tables, and logs as framed. What the drive wrote beyond them is the
   catalog's, cleaning's and rewriting's.
   */
  uint64_t file_written_bytes;
  /*
   Bytes written to the catalog.
   */
  uint64_t catalog_written_bytes;
  /*
   Commits: each syncs the drive.
   */
  uint64_t commits;
  /*
   Zones and bands emptied by cleaning.
   */
  uint64_t cleaned_zones;
  /*
   Bytes that cleaning moved for it.
   */
  uint64_t cleaning_moved_bytes;
  /*
   Zones reset, most of them without being cleaned.
   */
  uint64_t reset_zones;
  /*
   Top tracks backed up and moved back because bottom tracks below them were written.
   */
  uint64_t rewritten_tracks;
  /*
   Bytes moved back; as many were backed up.
   */
  uint64_t rewritten_bytes;
  /*
   Syncs that writing to interlaced tracks asked for, besides those of commits.
   */
  uint64_t track_syncs;
} imbrex_drive_stats;

/*
 What is known about how a file will be used. Fill it with zeros, then set `kind` and what is known.
 */
typedef struct imbrex_hints {
  /*
   IMBREX_KIND_LOG, IMBREX_KIND_TABLE, IMBREX_KIND_METADATA or IMBREX_KIND_OTHER.
   */
  uint8_t kind;
  /*
   The level of a table in its LSM-tree, 0 the youngest.
   */
  uint8_t level;
  /*
   Not 0: may use the reserve that lets a full drive be emptied, of blocks and of the catalog (compaction
   outputs, manifests).
   */
  uint8_t may_use_reserve;
  /*
   Zero.
   */
  uint8_t reserved;
  /*
   Files of one stream are expected to die together; 0 if nothing is known.
   */
  uint32_t stream;
  /*
   Which compaction writes it; 0 if nothing is known.
   */
  uint64_t group;
  /*
   How long it will get; 0 if nothing is known.
   */
  uint64_t expected_len_bytes;
} imbrex_hints;

/*
 What there is at a path.
 */
typedef struct imbrex_file_stat {
  /*
   Whether it is a directory.
   */
  bool is_dir;
  /*
   The level of a table, as told last.
   */
  uint8_t level;
  /*
   How many paths lead to it.
   */
  uint32_t link_count;
  /*
   The length of a file.
   */
  uint64_t len_bytes;
  /*
   When its content last changed on the drive, in seconds since 1970.
   */
  uint64_t mtime_s;
} imbrex_file_stat;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a cursor, which stands nowhere: seek first. It sees nothing that is written later, and keeps
 what it sees from being freed. Give it back with imbrex_cursor_close().
 */
enum imbrex_status imbrex_cursor_open(const struct imbrex_keyspace *keyspace,
                                      struct imbrex_cursor **out);

/*
 Moves to the first entry at or after a key, or to the first of all for a key of 0 bytes.
 */
enum imbrex_status imbrex_cursor_seek(struct imbrex_cursor *cursor,
                                      const uint8_t *key,
                                      size_t key_len_bytes,
                                      struct imbrex_entry *out);

/*
 Moves to the next entry. A cursor that stands nowhere stays there.
 */
enum imbrex_status imbrex_cursor_next(struct imbrex_cursor *cursor, struct imbrex_entry *out);

/*
 Takes the cursor back, with the entry that it stands on.
 */
enum imbrex_status imbrex_cursor_close(struct imbrex_cursor *cursor);

/*
 Opens the drive at `image_path`: an image file, made by `imbrex drive create --no-store`, or a block device, made
 ready by `imbrex drive format --no-store`.

 `layout` names the layout that it must be formatted as; NULL takes any. Give the drive back with
 imbrex_drive_close().

 Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_BUSY, IMBREX_STATUS_UNSUPPORTED, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_drive_open(const char *image_path,
                                     const char *layout,
                                     struct imbrex_drive **out);

/*
 Opens an emulated drive that loses its power at a chosen event: a facility for tests.

 As imbrex_drive_open(), but writes stay in the drive's volatile cache until they are flushed, and once
 `cut` comes every call that needs the drive fails. The image is then what such a drive holds when
 the power is back: of what was not flushed any part, in any order, writes torn. A process that dies
 before loses the whole cache.

 Errors: as imbrex_drive_open(); IMBREX_STATUS_BUSY also if this process has the drive open.
 */
enum imbrex_status imbrex_drive_open_for_power_cut(const char *image_path,
                                                   const char *layout,
                                                   const struct imbrex_power_cut *cut,
                                                   struct imbrex_drive **out);

/*
 Makes everything durable: all bytes appended to any file, and all names.
 */
enum imbrex_status imbrex_drive_sync(const struct imbrex_drive *drive);

/*
 Makes everything durable and takes the handle back.
 */
enum imbrex_status imbrex_drive_close(struct imbrex_drive *drive);

/*
 Tells what the drive holds and has done.
 */
enum imbrex_status imbrex_drive_get_stats(const struct imbrex_drive *drive,
                                          struct imbrex_drive_stats *out);

/*
 From now on the key has that value: 1 byte to 64 KiB of key, up to 1 GiB of value.

 With `sync` it is durable on return, and everything before it; without, a crash may take it, but only
 with everything written after it.

 Errors: IMBREX_STATUS_INVALID, IMBREX_STATUS_NO_SPACE, IMBREX_STATUS_POISONED, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_put(const struct imbrex_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len_bytes,
                              const uint8_t *value,
                              size_t value_len_bytes,
                              bool sync);

/*
 From now on the key has no value; it need not have one. `sync` as in imbrex_put().
 */
enum imbrex_status imbrex_delete(const struct imbrex_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len_bytes,
                                 bool sync);

/*
 Reads the value of a key into `buffer`.

 `out_len_bytes` gets the value's length. If that is more than `len_bytes`, `buffer` has only its
 beginning: call again with a longer one, as the value may have changed meanwhile until it fits.

 Errors: IMBREX_STATUS_NOT_FOUND if the key has no value, IMBREX_STATUS_INVALID, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_get(const struct imbrex_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len_bytes,
                              uint8_t *buffer,
                              size_t len_bytes,
                              size_t *out_len_bytes);

/*
 Makes an empty batch. Give it back with imbrex_batch_close().
 */
enum imbrex_status imbrex_batch_open(struct imbrex_batch **out);

/*
 Adds what imbrex_put() does.

 Errors: IMBREX_STATUS_INVALID, also for a keyspace of another store; nothing was added.
 */
enum imbrex_status imbrex_batch_put(struct imbrex_batch *batch,
                                    const struct imbrex_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len_bytes,
                                    const uint8_t *value,
                                    size_t value_len_bytes);

/*
 Adds what imbrex_delete() does. Errors: as imbrex_batch_put().
 */
enum imbrex_status imbrex_batch_delete(struct imbrex_batch *batch,
                                       const struct imbrex_keyspace *keyspace,
                                       const uint8_t *key,
                                       size_t key_len_bytes);

/*
 Applies the batch and empties it; if it fails, the batch is as it was. `sync` as in imbrex_put().
 */
enum imbrex_status imbrex_batch_write(struct imbrex_batch *batch, bool sync);

/*
 Takes the batch back; what was not applied is forgotten.
 */
enum imbrex_status imbrex_batch_close(struct imbrex_batch *batch);

/*
 Makes an empty file at `path`, in a directory that is there, and opens it for writing.

 A file that was there loses the name; who has it open may go on reading. `hints` may be NULL. Give
 the writer back with imbrex_writer_close().
 */
enum imbrex_status imbrex_writer_create(const struct imbrex_drive *drive,
                                        const char *path,
                                        const struct imbrex_hints *hints,
                                        struct imbrex_writer **out);

/*
 Opens an existing file to append to it. Give the writer back with imbrex_writer_close().
 */
enum imbrex_status imbrex_writer_open(const struct imbrex_drive *drive,
                                      const char *path,
                                      struct imbrex_writer **out);

/*
 Appends `len_bytes` bytes. Cost: a copy; a call costs tens of nanoseconds more.
 */
enum imbrex_status imbrex_writer_append(const struct imbrex_writer *writer,
                                        const uint8_t *data,
                                        size_t len_bytes);

/*
 Writes `len_bytes` bytes at `offset`: at the end of the file an append; anywhere else the file is
 taken into memory, at most 1 GiB of it, and written anew by the next sync.
 */
enum imbrex_status imbrex_writer_write_at(const struct imbrex_writer *writer,
                                          uint64_t offset,
                                          const uint8_t *data,
                                          size_t len_bytes);

/*
 Writes `len_bytes` bytes at `offset`, for logs that many threads write at places of their own: each
 byte once, in any order. What lies behind a hole waits in memory, at most 1 GiB behind the file's
 end, and is the file's when the hole is filled. imbrex_writer_sync() then waits for the holes below
 what was written before it, so whoever fills one must not wait for that sync;
 imbrex_writer_close() fills them with zeros.

 Errors: IMBREX_STATUS_INVALID for a byte that is written already: nothing has happened. The same for one
 that is too far away, or any other, as of imbrex_writer_append(): that leaves a hole for good, and every
 later call for the file's bytes fails.
 */
enum imbrex_status imbrex_writer_fill_at(const struct imbrex_writer *writer,
                                         uint64_t offset,
                                         const uint8_t *data,
                                         size_t len_bytes);

/*
 Makes the file's bytes and its name durable, and every change of names before the file's own last one; for
 others there is imbrex_sync_names(). Waits for holes that imbrex_writer_fill_at() left.
 */
enum imbrex_status imbrex_writer_sync(const struct imbrex_writer *writer);

/*
 Cuts the file to `len_bytes`, or lengthens it by zeros. Durable after the next sync.
 */
enum imbrex_status imbrex_writer_truncate(const struct imbrex_writer *writer, uint64_t len_bytes);

/*
 Tells how the file will be used. A table is placed when it is synced or closed: until then it may
 still be told its level. Of a longer one, every 256 MiB are placed as they come: tell it at first.
 */
enum imbrex_status imbrex_writer_set_hints(const struct imbrex_writer *writer,
                                           const struct imbrex_hints *hints);

/*
 The file's length.
 */
enum imbrex_status imbrex_writer_len(const struct imbrex_writer *writer, uint64_t *out);

/*
 Closes the file: what was appended is stored, but durable only after a sync. Takes the writer back.
 */
enum imbrex_status imbrex_writer_close(struct imbrex_writer *writer);

/*
 Opens a file for reading. What is appended later can be read as well; what is removed or replaced
 meanwhile stays readable. Give the reader back with imbrex_reader_close().
 */
enum imbrex_status imbrex_reader_open(const struct imbrex_drive *drive,
                                      const char *path,
                                      struct imbrex_reader **out);

/*
 Reads `len_bytes` bytes from `offset` into `buffer`, fewer at the end of the file, and says how many.
 */
enum imbrex_status imbrex_reader_read_at(const struct imbrex_reader *reader,
                                         uint64_t offset,
                                         uint8_t *buffer,
                                         size_t len_bytes,
                                         size_t *out_len_bytes);

/*
 The file's length now.
 */
enum imbrex_status imbrex_reader_len(const struct imbrex_reader *reader, uint64_t *out);

/*
 A number that no other file of the drive has, had or will have: for caches. A file whose name is never synced may
 leave it to another one after a crash.
 */
enum imbrex_status imbrex_reader_id(const struct imbrex_reader *reader,
                                    uint64_t *out);

/*
 Takes the reader back.
 */
enum imbrex_status imbrex_reader_close(struct imbrex_reader *reader);

/*
 Takes a path from its file, which goes with its last path. Who has it open may go on.
 */
enum imbrex_status imbrex_unlink(const struct imbrex_drive *drive, const char *path);

/*
 Gives a file or a directory another path. A file that is there is replaced, atomically, and by
 content that is there after a power cut; an empty directory may be replaced by a directory.
 */
enum imbrex_status imbrex_rename(const struct imbrex_drive *drive,
                                 const char *from,
                                 const char *to);

/*
 Gives a file one more path.
 */
enum imbrex_status imbrex_link(const struct imbrex_drive *drive,
                               const char *existing,
                               const char *path);

/*
 Tells that a table belongs to another level now, without being rewritten.
 */
enum imbrex_status imbrex_set_level(const struct imbrex_drive *drive,
                                    const char *path,
                                    uint8_t level);

/*
 Makes a directory. `with_parents` makes those above it too, and takes one that is there for good.
 */
enum imbrex_status imbrex_make_dir(const struct imbrex_drive *drive,
                                   const char *path,
                                   bool with_parents);

/*
 Removes an empty directory.
 */
enum imbrex_status imbrex_remove_dir(const struct imbrex_drive *drive, const char *path);

/*
 Makes every change of names so far durable: what fsync of a directory is for.
 */
enum imbrex_status imbrex_sync_names(const struct imbrex_drive *drive);

/*
 Locks a path for this process, making an empty file if there is none.

 Errors: IMBREX_STATUS_LOCKED if this process holds it already. Other processes cannot open the drive.
 */
enum imbrex_status imbrex_lock(const struct imbrex_drive *drive,
                               const char *path);

/*
 Gives a lock back.
 */
enum imbrex_status imbrex_unlock(const struct imbrex_drive *drive, const char *path);

/*
 Tells what there is at a path.
 */
enum imbrex_status imbrex_stat(const struct imbrex_drive *drive,
                               const char *path,
                               struct imbrex_file_stat *out);

/*
 Lists the names in a directory, in order. Give the listing back with imbrex_names_close().
 */
enum imbrex_status imbrex_list(const struct imbrex_drive *drive,
                               const char *path,
                               struct imbrex_names **out);

/*
 How many names there are; 0 for NULL.
 */
size_t imbrex_names_count(const struct imbrex_names *names);

/*
 Name number `index`, which belongs to the listing; NULL if there are not so many.
 */
const char *imbrex_names_get(const struct imbrex_names *names, size_t index);

/*
 Takes the listing back.
 */
enum imbrex_status imbrex_names_close(struct imbrex_names *names);

/*
 Why the calling thread's last failed call failed, in words; empty if none has.

 The text is good until the thread's next failed call.
 */
const char *imbrex_last_error(void);

/*
 The version of this library, such as "0.1.0".
 */
const char *imbrex_version(void);

/*
 Opens the store on the drive at `image_path`: an image file, made by `imbrex drive create`, or a block device, made
 ready by `imbrex drive format`.

 `flash_path` is the flash drive beside it, likewise, which `--flash` made with it; NULL
 for a layout without one. `layout` names the layout that it must be formatted as; NULL takes any. What a
 process that died had acknowledged with `sync` is there. Give the store back with imbrex_store_close().

 Cost: writes what the logs hold to tables.

 Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_BUSY, also for a store that this process has open beside another
 flash drive, IMBREX_STATUS_UNSUPPORTED, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_store_open(const char *image_path,
                                     const char *flash_path,
                                     const char *layout,
                                     struct imbrex_store **out);

/*
 Makes everything written so far durable.
 */
enum imbrex_status imbrex_store_sync(const struct imbrex_store *store);

/*
 Writes what is in memory to tables, durably.
 */
enum imbrex_status imbrex_store_flush(const struct imbrex_store *store);

/*
 Returns when no background work is due: what waited for tables is in tables, and they are in shape.
 */
enum imbrex_status imbrex_store_wait_idle(const struct imbrex_store *store);

/*
 A property of the store as text without a NUL: `stats`, `levels`, `write-amplification`,
 `memtable-bytes`, `block-cache-bytes`, `last-sequence`, `snapshots` or `background-error`.

 `out_len_bytes` gets its length. If that is more than `len_bytes`, `buffer` has only its beginning:
 call again with a longer one.

 Errors: IMBREX_STATUS_NOT_FOUND for any other name.
 */
enum imbrex_status imbrex_store_get_property(const struct imbrex_store *store,
                                             const char *name,
                                             uint8_t *buffer,
                                             size_t len_bytes,
                                             size_t *out_len_bytes);

/*
 Makes everything durable and takes the handle back.
 */
enum imbrex_status imbrex_store_close(struct imbrex_store *store);

/*
 Opens the keyspace `name`: an ordered map of its own in the store. With `create` it is made if there
 is none, durably, with the options of the drive's layout. "default" is always there. Give it back with
 imbrex_keyspace_close().

 Errors: IMBREX_STATUS_NOT_FOUND.
 */
enum imbrex_status imbrex_keyspace_open(const struct imbrex_store *store,
                                        const char *name,
                                        bool create,
                                        struct imbrex_keyspace **out);

/*
 Takes the keyspace back.
 */
enum imbrex_status imbrex_keyspace_close(struct imbrex_keyspace *keyspace);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IMBREX_H */
