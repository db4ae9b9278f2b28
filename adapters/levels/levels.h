// Levels: which level a table belongs to, told as early and as exactly as a database lets anyone know.
//
//   word        the database said so before it created the table            exact
//   guess       a hint on the open file                                      wrong now and then
//   manifest    every record appended to the MANIFEST                        the truth, afterwards
//
// A table is placed when it is synced or closed, and a long one in pieces while it is written: what is known at
// its first append is in time for all of it. What was known is kept beside what the MANIFEST says later, and
// counted.
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
  // It must be written before anything can go: by the database's word; where it gave none, a level below the
  // youngest says so.
  bool needed = false;
};

// One for a process, because listeners and file systems do not know each other. Thread-safe.
class LevelBook {
 public:
  static LevelBook& Get();

  // The database's word about a file that is about to be created: its level, -1 if the database does not know it,
  // and whether it must be written before anything can go, as what a compaction writes and what an opening flushes.
  // `called` is where a MANIFEST's reader looks for it, if that is elsewhere: beside the MANIFEST, while the table
  // is in one of `db_paths`.
  void Expect(const std::string& path, int level, bool needed, const std::string& called = "");
  // The same, that its level is decided only after it is written; the youngest is a good place for it.
  void ExpectFlush(const std::string& path, bool needed);
  // Whether the database has said that the file must be written before anything can go.
  bool Needed(const std::string& path) const;
  // A table is created at `path`: whatever had this name is forgotten, but not the word about it.
  void Created(const std::string& path);
  // What is known of the table; `guess` is the level that a hint says, or -1. Called once more when the
  // table's last piece is placed: the last answer counts.
  Knowledge Known(const std::string& path, int guess);
  // A MANIFEST says that the table is of this level. Whether the file layer should be told, and of which
  // path: `*path` becomes where the table is.
  bool Truth(std::string* path, int level);
  void Deleted(const std::string& path);
  void Renamed(const std::string& from, const std::string& to);

  Counts counts() const;
  // How many tables are kept in mind: none that is gone.
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
