/*
 * Imbrex: a file system for databases, or a key-value store, on a shingled or interlaced disk.
 *
 * Conventions
 *
 *   Errors      Every call that can fail returns an imbrex_status; IMBREX_STATUS_OK is 0. After a failure
 *               imbrex_last_error() returns a message about the calling thread's last failed call.
 *               Results go to out parameters, which are written only on success.
 *   Ownership   An object received through an out parameter belongs to the caller, who releases it once
 *               with the call named in its comment. That call releases it even if it fails. Strings and
 *               buffers passed to a call belong to the caller; the call keeps no pointer to them. A
 *               writer, reader, listing, keyspace, snapshot, batch or cursor may outlive the imbrex_drive or
 *               imbrex_store handle that it came from. The drive is closed with the last of them.
 *   Strings     NUL-terminated UTF-8. There is no working directory: the path "a/b" is the same as
 *               "/a/b". A name has at most 255 bytes, a path at most 4096.
 *   Lengths     In bytes; uint64_t in files, size_t in memory. A buffer of 0 bytes may be NULL.
 *   Threads     Any thread may make any call with any handle at any time, with two exceptions. No other
 *               call may use a handle during or after its release. A batch or a cursor is used by one
 *               thread at a time. imbrex_last_error() is separate for each thread.
 *   Durability  Bytes and names are durable only after a successful sync. The death of a process is like
 *               a power cut, because appended bytes that are not synced are in its memory. After either,
 *               a file holds a prefix of the appended bytes, which includes all synced bytes. The names
 *               are those of one moment, which includes every change covered by the last sync. A rename
 *               has replaced its target completely or not at all. imbrex_writer_sync() covers the file's
 *               bytes, its name, and every change of names before the last change of this file's name;
 *               imbrex_sync_names() covers every change of names.
 *               A put or delete with `sync` in a store is durable, and so is every write before it. Of the
 *               writes after it a prefix survives.
 *   Processes   One process at a time has a drive open; others get IMBREX_STATUS_BUSY. Any number of
 *               processes can have a store open for reading only, while none has it open for writing. In
 *               the same process, opening a drive again returns another handle of it. A forked child cannot use
 *               the handles of its parent: every call with one, release included, fails with
 *               IMBREX_STATUS_BUSY and has no effect.
 *   Bugs        No exception or panic leaves a call. After a panic in a call or in background work, the
 *               drive refuses writes with IMBREX_STATUS_BUG, and nothing more is written to it.
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
 A file written once and placed as a whole.
 */
#define IMBREX_KIND_TABLE 2

/*
 A small file that is rewritten often.
 */
#define IMBREX_KIND_METADATA 3

/*
 Any other file.
 */
#define IMBREX_KIND_OTHER 4

/*
 The result of a call. The numbers never change.
 */
typedef enum imbrex_status {
  /*
   Success.
   */
  IMBREX_STATUS_OK = 0,
  /*
   The file, directory, keyspace or key does not exist.
   */
  IMBREX_STATUS_NOT_FOUND = 1,
  /*
   The name exists already.
   */
  IMBREX_STATUS_EXISTS = 2,
  /*
   The path names a file, and a directory is needed.
   */
  IMBREX_STATUS_NOT_A_DIRECTORY = 3,
  /*
   The path names a directory, and a file is needed.
   */
  IMBREX_STATUS_IS_A_DIRECTORY = 4,
  /*
   The directory is not empty.
   */
  IMBREX_STATUS_NOT_EMPTY = 5,
  /*
   An invalid argument, such as NULL, text that is not UTF-8, an unknown kind, or a key that is too
   long.
   */
  IMBREX_STATUS_INVALID = 6,
  /*
   The lock is held already.
   */
  IMBREX_STATUS_LOCKED = 7,
  /*
   Another process has the drive open; imbrex_last_error() names it.
   */
  IMBREX_STATUS_BUSY = 8,
  /*
   The drive is full; the call had no effect.
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
   The drive holds other content or another layout, or a newer program wrote it.
   */
  IMBREX_STATUS_UNSUPPORTED = 12,
  /*
   After an earlier failure it is unknown what is durable; close the drive and open it again.
   */
  IMBREX_STATUS_POISONED = 13,
  /*
   A bug in this library; the drive refuses writes from now on.
   */
  IMBREX_STATUS_BUG = 14,
  /*
   The store is open for reading only; the call had no effect.
   */
  IMBREX_STATUS_READ_ONLY = 15,
} imbrex_status;

/*
 Writes to the keyspaces of one store that are applied together, in order, or not at all.
 */
typedef struct imbrex_batch imbrex_batch;

/*
 A cursor over a keyspace, as of the moment when the cursor was opened.
 */
typedef struct imbrex_cursor imbrex_cursor;

/*
 An open drive.
 */
typedef struct imbrex_drive imbrex_drive;

/*
 An open keyspace.
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
 A point in the order of the writes to a store.
 */
typedef struct imbrex_snapshot imbrex_snapshot;

/*
 An open store.
 */
typedef struct imbrex_store imbrex_store;

/*
 A file open for writing.
 */
typedef struct imbrex_writer imbrex_writer;

/*
 The entry at a cursor. Key and value belong to the cursor and are valid until the next call with it.
 */
typedef struct imbrex_entry {
  /*
   The key; NULL after the last entry and before the first one, with all other fields 0.
   */
  const uint8_t *key;
  /*
   The length of the key.
   */
  size_t key_len_bytes;
  /*
   The value; not NULL if there is a key, even if the value is empty.
   */
  const uint8_t *value;
  /*
   The length of the value.
   */
  size_t value_len_bytes;
} imbrex_entry;

/*
 A planned power cut of an emulated drive, for tests.
 */
typedef struct imbrex_power_cut {
  /*
   The number of writes, flushes and zone resets that complete; the power fails during the next.
   */
  uint64_t after_event_count;
  /*
   Selects which unflushed writes have reached the platter.
   */
  uint64_t seed;
  /*
   The length of the drive's volatile write cache.
   */
  uint64_t cache_bytes;
} imbrex_power_cut;

/*
 The content of a drive, and its counters since it was opened.
 */
typedef struct imbrex_drive_stats {
  /*
   Space for files in total.
   */
  uint64_t capacity_bytes;
  /*
   Space in use by files.
   */
  uint64_t live_bytes;
  /*
   Dead space, in zones and bands that are not free yet.
   */
  uint64_t dead_bytes;
  /*
   Space that can be written now.
   */
  uint64_t free_bytes;
  /*
   Read requests.
   */
  uint64_t reads;
  /*
   Write requests.
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
   Bytes of `read_bytes` that the recording added by read-modify-write.
   */
  uint64_t added_read_bytes;
  /*
   Bytes of `written_bytes` that the recording added by read-modify-write.
   */
  uint64_t added_written_bytes;
  /*
   Busy time of the modelled drive.
   */
  uint64_t busy_ns;
  /*
   Bytes written for files: tables, and logs with their framing. All other written bytes belong to the
   catalog, to cleaning and to rewriting.
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
   Bytes that cleaning moved.
   */
  uint64_t cleaning_moved_bytes;
  /*
   Zones reset, most of them without cleaning.
   */
  uint64_t reset_zones;
  /*
   Top tracks that were backed up and moved back for writes to bottom tracks below them.
   */
  uint64_t rewritten_tracks;
  /*
   Bytes moved back; the same number was backed up.
   */
  uint64_t rewritten_bytes;
  /*
   Syncs for writes to interlaced tracks, in addition to those of commits.
   */
  uint64_t track_syncs;
} imbrex_drive_stats;

/*
 Hints about the use of a file. Fill the struct with zeros, then set `kind` and the known fields.
 */
typedef struct imbrex_hints {
  /*
   IMBREX_KIND_LOG, IMBREX_KIND_TABLE, IMBREX_KIND_METADATA or IMBREX_KIND_OTHER.
   */
  uint8_t kind;
  /*
   The level of a table in its LSM-tree; 0 is the youngest.
   */
  uint8_t level;
  /*
   Nonzero: the file may use the reserve of blocks and catalog space with which a full drive can be
   emptied. For compaction outputs and manifests.
   */
  uint8_t may_use_reserve;
  /*
   Must be zero.
   */
  uint8_t reserved;
  /*
   The stream: files of one stream are expected to die together; 0 if unknown.
   */
  uint32_t stream;
  /*
   The compaction that writes the file; 0 if unknown.
   */
  uint64_t group;
  /*
   The expected length of the file; 0 if unknown.
   */
  uint64_t expected_len_bytes;
} imbrex_hints;

/*
 The properties of a path.
 */
typedef struct imbrex_file_stat {
  /*
   Whether it is a directory.
   */
  bool is_dir;
  /*
   The level of a table, as last recorded.
   */
  uint8_t level;
  /*
   The number of paths of the file.
   */
  uint32_t link_count;
  /*
   The length of a file.
   */
  uint64_t len_bytes;
  /*
   The time of the last change of its content on the drive, in seconds since 1970.
   */
  uint64_t mtime_s;
} imbrex_file_stat;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a cursor without a position; call imbrex_cursor_seek() first. The cursor does not see later writes,
 and the data that it sees is not freed while it is open. Release it with imbrex_cursor_close().
 */
enum imbrex_status imbrex_cursor_open(const struct imbrex_keyspace *keyspace,
                                      struct imbrex_cursor **out);

/*
 Moves to the first entry at or after a key; a key of 0 bytes moves to the first entry of all.
 */
enum imbrex_status imbrex_cursor_seek(struct imbrex_cursor *cursor,
                                      const uint8_t *key,
                                      size_t key_len_bytes,
                                      struct imbrex_entry *out);

/*
 Moves to the last entry at or before a key; a key of 0 bytes moves to the last entry of all.
 */
enum imbrex_status imbrex_cursor_seek_for_prev(struct imbrex_cursor *cursor,
                                               const uint8_t *key,
                                               size_t key_len_bytes,
                                               struct imbrex_entry *out);

/*
 Moves to the previous entry. A cursor without a position stays without one. Steps in both directions may
 be mixed; a change of direction costs a seek.
 */
enum imbrex_status imbrex_cursor_prev(struct imbrex_cursor *cursor,
                                      struct imbrex_entry *out);

/*
 Moves to the next entry. A cursor without a position stays without one.
 */
enum imbrex_status imbrex_cursor_next(struct imbrex_cursor *cursor, struct imbrex_entry *out);

/*
 Releases the cursor and its entry.
 */
enum imbrex_status imbrex_cursor_close(struct imbrex_cursor *cursor);

/*
 Opens the drive at `image_path`: an image file from `imbrex drive create --no-store`, or a block device
 prepared by `imbrex drive format --no-store`.

 `layout` names the required layout; NULL accepts any. Release the drive with imbrex_drive_close().

 Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_BUSY, IMBREX_STATUS_UNSUPPORTED,
 IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_drive_open(const char *image_path,
                                     const char *layout,
                                     struct imbrex_drive **out);

/*
 Opens an emulated drive that loses its power at a chosen event, for tests.

 Like imbrex_drive_open(), but writes stay in the drive's volatile cache until they are flushed. From the
 event of `cut` on, every call that needs the drive fails. The image then holds what such a drive holds
 when the power returns: any part of the unflushed writes, in any order, some of them torn. If the
 process dies before the event, the whole cache is lost.

 Errors: as imbrex_drive_open(); also IMBREX_STATUS_BUSY if this process has the drive open already.
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
 Makes everything durable and releases the handle.
 */
enum imbrex_status imbrex_drive_close(struct imbrex_drive *drive);

/*
 Returns the content and the counters of the drive.
 */
enum imbrex_status imbrex_drive_get_stats(const struct imbrex_drive *drive,
                                          struct imbrex_drive_stats *out);

/*
 Sets the value of a key. A key has 1 byte to 64 KiB, a value up to 1 GiB.

 With `sync` this write and every write before it are durable on return. Without `sync` a crash may lose
 it, but only together with every write after it.

 Errors: IMBREX_STATUS_INVALID, IMBREX_STATUS_NO_SPACE, IMBREX_STATUS_POISONED, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_put(const struct imbrex_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len_bytes,
                              const uint8_t *value,
                              size_t value_len_bytes,
                              bool sync);

/*
 Deletes a key; a missing key is not an error. `sync` is as in imbrex_put().
 */
enum imbrex_status imbrex_delete(const struct imbrex_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len_bytes,
                                 bool sync);

/*
 Deletes all keys from `start` on, below `end`: as much work as one delete. `sync` is as in imbrex_put().

 Errors: as imbrex_put(); IMBREX_STATUS_INVALID also for an end below the start.
 */
enum imbrex_status imbrex_delete_range(const struct imbrex_keyspace *keyspace,
                                       const uint8_t *start,
                                       size_t start_len_bytes,
                                       const uint8_t *end,
                                       size_t end_len_bytes,
                                       bool sync);

/*
 Merges all tables of the keyspace, which frees the space of deleted and overwritten entries, unless a
 snapshot still sees them.

 Cost: reads and writes the whole keyspace about once per level.

 Errors: IMBREX_STATUS_NO_SPACE, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_POISONED, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_keyspace_compact(const struct imbrex_keyspace *keyspace);

/*
 Reads the value of a key into `buffer`.

 `out_len_bytes` receives the value's length. If it exceeds `len_bytes`, `buffer` holds only the
 beginning: call again with a longer buffer, and repeat that until the value fits, because it may change
 between the calls.

 Errors: IMBREX_STATUS_NOT_FOUND for a missing key, IMBREX_STATUS_INVALID, IMBREX_STATUS_CORRUPT,
 IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_get(const struct imbrex_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len_bytes,
                              uint8_t *buffer,
                              size_t len_bytes,
                              size_t *out_len_bytes);

/*
 Creates an empty batch. Release it with imbrex_batch_close().
 */
enum imbrex_status imbrex_batch_open(struct imbrex_batch **out);

/*
 Adds a put, as in imbrex_put().

 Errors: IMBREX_STATUS_INVALID, also for a keyspace of another store; the batch is unchanged.
 */
enum imbrex_status imbrex_batch_put(struct imbrex_batch *batch,
                                    const struct imbrex_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len_bytes,
                                    const uint8_t *value,
                                    size_t value_len_bytes);

/*
 Adds a delete, as in imbrex_delete(). Errors: as imbrex_batch_put().
 */
enum imbrex_status imbrex_batch_delete(struct imbrex_batch *batch,
                                       const struct imbrex_keyspace *keyspace,
                                       const uint8_t *key,
                                       size_t key_len_bytes);

/*
 Adds a delete of a range, as in imbrex_delete_range(). Errors: as imbrex_batch_put(), and
 IMBREX_STATUS_INVALID for an end below the start.
 */
enum imbrex_status imbrex_batch_delete_range(struct imbrex_batch *batch,
                                             const struct imbrex_keyspace *keyspace,
                                             const uint8_t *start,
                                             size_t start_len_bytes,
                                             const uint8_t *end,
                                             size_t end_len_bytes);

/*
 Applies the batch and empties it; after a failure the batch is unchanged. `sync` is as in
 imbrex_put().
 */
enum imbrex_status imbrex_batch_write(struct imbrex_batch *batch, bool sync);

/*
 Releases the batch; writes that were not applied are discarded.
 */
enum imbrex_status imbrex_batch_close(struct imbrex_batch *batch);

/*
 Creates an empty file at `path`, in an existing directory, and opens it for writing.

 An existing file at `path` loses this name; open readers keep working. `hints` may be NULL. Release the
 writer with imbrex_writer_close().
 */
enum imbrex_status imbrex_writer_create(const struct imbrex_drive *drive,
                                        const char *path,
                                        const struct imbrex_hints *hints,
                                        struct imbrex_writer **out);

/*
 Opens an existing file to append to it. Release the writer with imbrex_writer_close().
 */
enum imbrex_status imbrex_writer_open(const struct imbrex_drive *drive,
                                      const char *path,
                                      struct imbrex_writer **out);

/*
 Appends `len_bytes` bytes. Cost: a copy, and tens of nanoseconds for the call.
 */
enum imbrex_status imbrex_writer_append(const struct imbrex_writer *writer,
                                        const uint8_t *data,
                                        size_t len_bytes);

/*
 Writes `len_bytes` bytes at `offset`. At the end of the file this is an append. Anywhere else the file, at
 most 1 GiB long, is read into memory, and the next sync rewrites it.
 */
enum imbrex_status imbrex_writer_write_at(const struct imbrex_writer *writer,
                                          uint64_t offset,
                                          const uint8_t *data,
                                          size_t len_bytes);

/*
 Writes `len_bytes` bytes at `offset`, for logs in which many threads write at separate places: each byte
 once, in any order.

 Bytes after a hole wait in memory, at most 1 GiB past the end of the file, and join the file when the
 hole is filled. imbrex_writer_sync() waits until all holes below the bytes written before it are filled,
 so a thread that fills a hole must not wait for that sync. imbrex_writer_close() fills holes with zeros.

 Errors: IMBREX_STATUS_INVALID for a byte that is written already; the call had no effect. After
 IMBREX_STATUS_INVALID for an offset too far past the end, and after any other error (as of
 imbrex_writer_append()), the hole stays for good, and every later call for the file's bytes fails.
 */
enum imbrex_status imbrex_writer_fill_at(const struct imbrex_writer *writer,
                                         uint64_t offset,
                                         const uint8_t *data,
                                         size_t len_bytes);

/*
 Makes durable the file's bytes, its name, and every change of names before the last change of this file's
 name; imbrex_sync_names() covers later changes. Waits for holes that imbrex_writer_fill_at() left.
 */
enum imbrex_status imbrex_writer_sync(const struct imbrex_writer *writer);

/*
 Truncates the file to `len_bytes`, or extends it with zeros. Durable after the next sync.
 */
enum imbrex_status imbrex_writer_truncate(const struct imbrex_writer *writer, uint64_t len_bytes);

/*
 Sets the hints of the file. A table is placed when it is synced or closed, so its level may be set until
 then. A table longer than 256 MiB is placed in pieces of that length as they are written: set its hints
 before the first write.
 */
enum imbrex_status imbrex_writer_set_hints(const struct imbrex_writer *writer,
                                           const struct imbrex_hints *hints);

/*
 Returns the file's length.
 */
enum imbrex_status imbrex_writer_len(const struct imbrex_writer *writer, uint64_t *out);

/*
 Closes the file and releases the writer. Appended bytes are stored, but durable only after a sync.
 */
enum imbrex_status imbrex_writer_close(struct imbrex_writer *writer);

/*
 Opens a file for reading. Bytes appended later can be read too. A file that is removed or replaced stays
 readable. Release the reader with imbrex_reader_close().
 */
enum imbrex_status imbrex_reader_open(const struct imbrex_drive *drive,
                                      const char *path,
                                      struct imbrex_reader **out);

/*
 Reads up to `len_bytes` bytes from `offset` into `buffer`, fewer at the end of the file. `out_len_bytes`
 receives their number.
 */
enum imbrex_status imbrex_reader_read_at(const struct imbrex_reader *reader,
                                         uint64_t offset,
                                         uint8_t *buffer,
                                         size_t len_bytes,
                                         size_t *out_len_bytes);

/*
 Returns the file's current length.
 */
enum imbrex_status imbrex_reader_len(const struct imbrex_reader *reader, uint64_t *out);

/*
 Returns a number that is unique among all past and future files of the drive, for caches. One exception:
 after a crash, a new file may get the number of a file whose name was never synced.
 */
enum imbrex_status imbrex_reader_id(const struct imbrex_reader *reader,
                                    uint64_t *out);

/*
 Releases the reader.
 */
enum imbrex_status imbrex_reader_close(struct imbrex_reader *reader);

/*
 Creates a drive image with an empty store at `image_path`, where nothing may exist: a sparse file that
 emulates a drive. The store is durable on return, and not open; imbrex_store_open() opens it.

 `flash_path` is the flash image to create, for a layout that has one, or NULL. `layout` names the layout,
 `profile` the drive to emulate, by a name or as the path of a TOML file; NULL stands for the usual one of
 each. `capacity_bytes` is the drive's length; 0 stands for 64 GiB. A zoned drive that is too small for
 the usual zones gets shorter ones.

 Errors: IMBREX_STATUS_EXISTS; IMBREX_STATUS_INVALID for a drive that is too small (the message has the
 least length), for a layout that does not suit the drive, and for a block device, which
 imbrex_store_format() formats; IMBREX_STATUS_IO, IMBREX_STATUS_NO_SPACE. No image is left then.
 */
enum imbrex_status imbrex_store_create(const char *image_path,
                                       const char *flash_path,
                                       const char *layout,
                                       const char *profile,
                                       uint64_t capacity_bytes);

/*
 Makes an empty store on the drive at `drive_path`, a block device or an image. The store is durable on
 return, and not open; imbrex_store_open() opens it.

 `flash_path` is the flash drive, for a layout that has one, or NULL. `layout` names the layout; NULL
 stands for the usual one of the drive. `erase` says which content may be lost. NULL stands for none: the
 drive must be blank. "" stands for a store or another content of Imbrex. Any other text names what other
 programs have put there, such as "gpt,ext4"; the message of a refusal has the names.

 Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_EXISTS for a drive with other content,
 IMBREX_STATUS_BUSY, IMBREX_STATUS_INVALID, IMBREX_STATUS_UNSUPPORTED. The drive is then as it was, except
 after IMBREX_STATUS_IO while it was erased or written.
 */
enum imbrex_status imbrex_store_format(const char *drive_path,
                                       const char *flash_path,
                                       const char *layout,
                                       const char *erase);

/*
 Removes a path of a file. The file is removed with its last path; open readers and writers keep
 working.
 */
enum imbrex_status imbrex_unlink(const struct imbrex_drive *drive, const char *path);

/*
 Renames a file or a directory. An existing file at `to` is replaced atomically, by content that survives a
 power cut. A directory may replace an empty directory.
 */
enum imbrex_status imbrex_rename(const struct imbrex_drive *drive,
                                 const char *from,
                                 const char *to);

/*
 Adds a path to an existing file.
 */
enum imbrex_status imbrex_link(const struct imbrex_drive *drive,
                               const char *existing,
                               const char *path);

/*
 Records that a table belongs to another level now, without rewriting it.
 */
enum imbrex_status imbrex_set_level(const struct imbrex_drive *drive,
                                    const char *path,
                                    uint8_t level);

/*
 Creates a directory. `with_parents` also creates missing parents, and accepts an existing directory.
 */
enum imbrex_status imbrex_make_dir(const struct imbrex_drive *drive,
                                   const char *path,
                                   bool with_parents);

/*
 Removes an empty directory.
 */
enum imbrex_status imbrex_remove_dir(const struct imbrex_drive *drive, const char *path);

/*
 Makes every change of names so far durable, like fsync of a directory.
 */
enum imbrex_status imbrex_sync_names(const struct imbrex_drive *drive);

/*
 Locks a path for this process, and creates an empty file if none exists.

 Errors: IMBREX_STATUS_LOCKED if this process holds the lock already. Other processes cannot open the
 drive at all.
 */
enum imbrex_status imbrex_lock(const struct imbrex_drive *drive,
                               const char *path);

/*
 Releases a lock.
 */
enum imbrex_status imbrex_unlock(const struct imbrex_drive *drive, const char *path);

/*
 Returns the properties of a path.
 */
enum imbrex_status imbrex_stat(const struct imbrex_drive *drive,
                               const char *path,
                               struct imbrex_file_stat *out);

/*
 Lists the names in a directory, in order. Release the listing with imbrex_names_close().
 */
enum imbrex_status imbrex_list(const struct imbrex_drive *drive,
                               const char *path,
                               struct imbrex_names **out);

/*
 Returns the number of names; 0 for NULL.
 */
size_t imbrex_names_count(const struct imbrex_names *names);

/*
 Returns name number `index`, from 0, or NULL past the end. The text belongs to the listing.
 */
const char *imbrex_names_get(const struct imbrex_names *names, size_t index);

/*
 Releases the listing.
 */
enum imbrex_status imbrex_names_close(struct imbrex_names *names);

/*
 Takes a snapshot of the store: reads at it see every write that has returned, and no later one, in every
 keyspace. What only the snapshot still sees keeps its space on the drive. A snapshot ends with the
 process. Release it with imbrex_snapshot_close().
 */
enum imbrex_status imbrex_snapshot_open(const struct imbrex_store *store,
                                        struct imbrex_snapshot **out);

/*
 Reads the value that a key had at the snapshot into `buffer`; in other respects, as imbrex_get().

 Errors: as imbrex_get(); IMBREX_STATUS_INVALID for a keyspace of another store.
 */
enum imbrex_status imbrex_snapshot_get(const struct imbrex_snapshot *snapshot,
                                       const struct imbrex_keyspace *keyspace,
                                       const uint8_t *key,
                                       size_t key_len_bytes,
                                       uint8_t *buffer,
                                       size_t len_bytes,
                                       size_t *out_len_bytes);

/*
 Opens a cursor over a keyspace as of the snapshot; in other respects, as imbrex_cursor_open(). The
 cursor may outlive the snapshot.

 Errors: IMBREX_STATUS_INVALID for a keyspace of another store.
 */
enum imbrex_status imbrex_snapshot_cursor_open(const struct imbrex_snapshot *snapshot,
                                               const struct imbrex_keyspace *keyspace,
                                               struct imbrex_cursor **out);

/*
 Releases the snapshot.
 */
enum imbrex_status imbrex_snapshot_close(struct imbrex_snapshot *snapshot);

/*
 Returns the message of the calling thread's last failed call; empty if no call has failed.

 The text is valid until the thread's next failed call.
 */
const char *imbrex_last_error(void);

/*
 Returns the version of this library, such as "0.1.0".
 */
const char *imbrex_version(void);

/*
 Opens the store on the drive at `drive_path`: an image file, from imbrex_store_create() or `imbrex drive
 create`, or a block device such as /dev/sdb, formatted by imbrex_store_format() or `imbrex drive format`.

 `flash_path` is the flash drive of the store, from `--flash` of the same command; NULL for a layout
 without one. `layout` names the required layout; NULL accepts any. Every write with `sync` that an
 earlier process acknowledged is there, even if that process died. Release the store with
 imbrex_store_close().

 Cost: the content of the logs is written to tables.

 Errors: IMBREX_STATUS_NOT_FOUND; IMBREX_STATUS_BUSY, also if this process has the store open with another
 flash drive or for reading; IMBREX_STATUS_UNSUPPORTED, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
 */
enum imbrex_status imbrex_store_open(const char *drive_path,
                                     const char *flash_path,
                                     const char *layout,
                                     struct imbrex_store **out);

/*
 Opens the store on the drive at `drive_path` for reading. Nothing is written to the drive: the content of the
 logs, and whatever recovery repairs, stays in memory.

 The file or the device need only be readable. Any number of processes can have a store open for reading, while
 none has it open for writing. Writes fail with IMBREX_STATUS_READ_ONLY. In other respects, as
 imbrex_store_open().

 Errors: as imbrex_store_open(); IMBREX_STATUS_BUSY also if this process has the store open for writing.
 */
enum imbrex_status imbrex_store_open_read_only(const char *drive_path,
                                               const char *flash_path,
                                               const char *layout,
                                               struct imbrex_store **out);

/*
 Makes everything written so far durable.
 */
enum imbrex_status imbrex_store_sync(const struct imbrex_store *store);

/*
 Writes the memtables to tables, durably.
 */
enum imbrex_status imbrex_store_flush(const struct imbrex_store *store);

/*
 Waits until no background work is due: the memtables that were full are in tables, and no compaction is
 due.
 */
enum imbrex_status imbrex_store_wait_idle(const struct imbrex_store *store);

/*
 Returns a property of the store as text without a terminating NUL: `stats`, `levels`,
 `write-amplification`, `memtable-bytes`, `block-cache-bytes`, `last-sequence`, `snapshots` or
 `background-error`.

 `out_len_bytes` receives the length of the text. If it exceeds `len_bytes`, `buffer` holds only the
 beginning: call again with a longer buffer.

 Errors: IMBREX_STATUS_NOT_FOUND for any other name.
 */
enum imbrex_status imbrex_store_get_property(const struct imbrex_store *store,
                                             const char *name,
                                             uint8_t *buffer,
                                             size_t len_bytes,
                                             size_t *out_len_bytes);

/*
 Makes everything durable and releases the handle.
 */
enum imbrex_status imbrex_store_close(struct imbrex_store *store);

/*
 Opens the keyspace `name`, a separate ordered map in the store.

 With `create` a missing keyspace is created, durably, with the options of the drive's layout. The
 keyspace "default" always exists. Release it with imbrex_keyspace_close().

 Errors: IMBREX_STATUS_NOT_FOUND for a missing keyspace without `create`.
 */
enum imbrex_status imbrex_keyspace_open(const struct imbrex_store *store,
                                        const char *name,
                                        bool create,
                                        struct imbrex_keyspace **out);

/*
 Releases the keyspace.
 */
enum imbrex_status imbrex_keyspace_close(struct imbrex_keyspace *keyspace);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IMBREX_H */
