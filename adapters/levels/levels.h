// Levels: which level a table belongs to, as early and as exactly as a database reveals it.
//
//   word        the database said so before it created the table            exact
//   guess       a hint on the open file                                      sometimes wrong
//   manifest    every record appended to the MANIFEST                        exact, but afterwards
//
// A table is placed when it is synced or closed, and a long one in pieces while it is written. A
// level known at the first append is therefore early enough for the whole table. The level known
// then is compared with the MANIFEST's later record, and counted.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace imbrex_levels {

struct Counts {
  uint64_t tables = 0;   // created here with a level to be known, and named by a MANIFEST
  uint64_t right = 0;    // level known when placed == level of the first AddFile
  uint64_t wrong = 0;
  uint64_t unknown = 0;  // nothing was known
  uint64_t guessed = 0;  // of the right ones, those that no word was given for
  uint64_t flushed = 0;  // flushes whose level the database decides after writing them; not in `tables`
  uint64_t moved = 0;    // levels that changed afterwards, without a rewrite
};

struct Knowledge {
  int level = -1;           // -1: nothing is known
  // It must be written before anything can be deleted: by the database's word or, without one,
  // because its level is below the youngest.
  bool needed = false;
  // Tables of one stream share their levels: those of one column family. 0 for the default one.
  uint32_t stream = 0;
};

// One per process, because listeners and file systems do not know each other. Thread-safe.
class LevelBook {
 public:
  static LevelBook& Get();

  // The database's word about a file that it is about to create: its level, or -1 if the database
  // does not know it, and whether it must be written before anything can be deleted. That is true
  // of the output of compactions and of flushes during opening. `called` is the path at which a
  // MANIFEST's reader looks for the table, if that differs: in the MANIFEST's directory, while the
  // table is in one of `db_paths`. `stream` is the table's.
  void Expect(const std::string& path, int level, bool needed, const std::string& called = "",
              uint32_t stream = 0);
  // The same for a table whose level is decided only after it is written. The youngest level is a
  // good place for it.
  void ExpectFlush(const std::string& path, bool needed);
  // Whether the database has said that the file must be written before anything can be deleted.
  bool Needed(const std::string& path) const;
  // A table is created at `path`. Everything known about an earlier file of this name is dropped,
  // except the word about the new one.
  void Created(const std::string& path);
  // What is known about the table. `guess` is the level from a hint, or -1. Called again when the
  // table's last piece is placed: the last answer counts.
  Knowledge Known(const std::string& path, int guess);
  // A MANIFEST says that the table has this level. Returns whether the file layer should be
  // informed. Sets `*path` to the table's path.
  bool Truth(std::string* path, int level);
  void Deleted(const std::string& path);
  void Renamed(const std::string& from, const std::string& to);

  Counts counts() const;
  // The number of tables that are remembered. Deleted ones are not among them.
  size_t size() const;

 private:
  struct Table {
    int expected = -1;  // by the database's word
    int known = -1;     // when it was placed
    int level = -1;     // by the MANIFEST
    int told = -1;      // to the file layer, once a MANIFEST has said it
    bool needed = false;
    bool created = false;
    bool flush = false;
    uint32_t stream = 0;
    std::string called;  // its key in elsewhere_, if it has one
  };

  mutable std::mutex mutex_;
  std::map<std::string, Table> tables_;
  std::map<std::string, std::string> elsewhere_;  // where a table is that a MANIFEST calls so
  Counts counts_;
};

// "/a//b/./c" and "/a/b/c" name one file.
std::string Normal(const std::string& path);

}  // namespace imbrex_levels
