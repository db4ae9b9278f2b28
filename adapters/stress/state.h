// What a stress run expects of a database: what each of its threads has written, as far as is known to a
// process that may die at any moment. Knows nothing of the database.
//
//   base        what the last opening found, once it was good: a file, replaced whole
//   journals    what each thread did since: a file a thread, appended before and after each write
//
// Neither is synced: it is the program that dies, not the machine that it runs on.
//
// Write INDEX of a thread is one batch, which follows from the seed, the thread, INDEX and what the thread
// wrote before. Each batch also puts its number under the thread's key "at", so that a database says
// how many of a thread's batches it holds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stress {

// Says something to who started the program, and that it is alive: it ends if it says nothing for long.
void Say(const char* format, ...);
// Ends the program: the database is not as it must be.
[[noreturn]] void Wrong(const std::string& what);

// From now on a crash says whose code it happened in.
void TellOfCrashes();

constexpr int kThreads = 4;
constexpr int kFamilies = 3;

// Column families, or what stands for them: each is written in ways that do not mix with the others'.
enum Family { kPlain = 0, kSingle = 1, kMerge = 2 };
extern const char* const kFamilyNames[kFamilies];

// One stream of random numbers for each purpose and each number of it.
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

// All that a thread has in the database.
struct ThreadState {
  uint64_t batches = 0;
  std::array<Table, kFamilies> tables;
};

// A key of a thread; its keys lie side by side, from Key(thread, 0) to RangeEnd(thread).
std::string Key(int thread, uint64_t number);
std::string AtKey(int thread);
std::string RangeStart(int thread);
std::string RangeEnd(int thread);
constexpr uint64_t kKeys = 400;

// The thread's next batch, and what there is after it.
std::vector<Op> NextBatch(uint64_t seed, int thread, ThreadState* state);

// The first key in which two tables differ, and how.
std::string Difference(const Table& expected, const Table& found);

// What a thread says of itself while it writes; all threads take ticks from one clock, that begins at 1.
class Journal {
 public:
  Journal() = default;
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void Create(const std::string& path);
  // A batch begins.
  void Begin(uint64_t tick) { Put('B', tick); }
  // The batch that was begun is acknowledged, perhaps as durable.
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
  // Judges what was found: "" if it is what may be there, else why not. `is_whole`: the database was
  // closed, and the drive synced. On success `states` is what was found.
  std::string Judge(const std::array<std::array<Table, kFamilies>, kThreads>& found, bool is_whole);
  // Makes what was found the base, and begins journals.
  void Begin(std::array<Journal, kThreads>* journals);

  std::array<ThreadState, kThreads> states;

  // How many batches `states` have together.
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
