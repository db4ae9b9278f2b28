// What a stress run expects of a database: what each of its threads has written, as far as a
// process that may die at any moment can know. Knows nothing of the database.
//
//   base        what the last opening found, after it passed the check: a file, replaced as a whole
//   journals    what each thread did since: one file per thread, appended before and after each
//               write
//
// Neither is synced, because only the program dies, not its machine.
//
// Write INDEX of a thread is one batch, determined by the seed, the thread, INDEX and the thread's
// earlier writes. Each batch also puts its number under the thread's key "at", so that a database
// shows how many of a thread's batches it holds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stress {

// Prints a line for the parent process, as a sign of life. The program ends if it prints nothing
// for long.
void Say(const char* format, ...);
// Ends the program: the database is wrong.
[[noreturn]] void Wrong(const std::string& what);

// From now on a crash reports whose code it happened in.
void TellOfCrashes();

constexpr int kThreads = 4;
constexpr int kFamilies = 3;

// Column families, or their substitutes. Each is written with operations that do not mix with the
// others'.
enum Family { kPlain = 0, kSingle = 1, kMerge = 2 };
extern const char* const kFamilyNames[kFamilies];

// One stream of random numbers for each purpose and each number.
class Random {
 public:
  Random(uint64_t seed, uint64_t purpose, uint64_t index);
  uint64_t Next();
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }

 private:
  uint64_t state_;
};

using Table = std::map<std::string, std::string>;

struct Op {
  enum Kind { kPut, kDelete, kSingleDelete, kDeleteRange, kMergeInto };
  Kind kind;
  Family family;
  std::string key;
  std::string value;  // Of kDeleteRange the end, which stays.
};

// All of a thread's keys and values in the database.
struct ThreadState {
  uint64_t batches = 0;
  std::array<Table, kFamilies> tables;
};

// A key of a thread. Its keys are adjacent, from Key(thread, 0) to RangeEnd(thread).
std::string Key(int thread, uint64_t number);
std::string AtKey(int thread);
std::string RangeStart(int thread);
std::string RangeEnd(int thread);
constexpr uint64_t kKeys = 400;

// The thread's next batch, and the thread's state after it.
std::vector<Op> NextBatch(uint64_t seed, int thread, ThreadState* state);

// The first key in which two tables differ, and how.
std::string Difference(const Table& expected, const Table& found);

// A thread's own record while it writes. All threads take ticks from one clock, which begins at 1.
class Journal {
 public:
  Journal() = default;
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void Create(const std::string& path);
  // A batch begins.
  void Begin(uint64_t tick) { Put('B', tick); }
  // The current batch is acknowledged, perhaps as durable.
  void Acknowledged(uint64_t tick, bool synced) { Put(synced ? 'S' : 'A', tick); }
  // Every batch that was acknowledged before `tick` is durable.
  void Durable(uint64_t tick) { Put('M', tick); }

 private:
  void Put(char kind, uint64_t tick);

  int fd_ = -1;
};

// What the process knows before it opens the database.
class Expectation {
 public:
  Expectation(std::string dir, uint64_t seed) : dir_(std::move(dir)), seed_(seed) {}

  void Load();
  // Checks what was found. Returns "" if it is allowed, otherwise the reason. `is_whole`: the
  // database was closed and the drive synced. On success `states` holds what was found.
  std::string Judge(const std::array<std::array<Table, kFamilies>, kThreads>& found, bool is_whole);
  // Makes what was found the new base, and begins journals.
  void Begin(std::array<Journal, kThreads>* journals);

  std::array<ThreadState, kThreads> states;

  // How many batches `states` contains in total.
  uint64_t BatchCount() const;

 private:
  struct Batch {
    uint64_t began;
    uint64_t acknowledged;  // 0: never.
    bool synced;
  };
  struct History {
    std::vector<Batch> batches;
    uint64_t durable = 0;
    uint64_t acknowledged = 0;
  };

  History Read(int thread) const;
  std::string JournalPath(uint64_t session, int thread) const;
  std::string Together(const std::array<uint64_t, kThreads>& bases) const;

  std::string dir_;
  uint64_t seed_;
  uint64_t session_ = 0;
  std::array<History, kThreads> histories_;
};

}  // namespace stress
