#include "state.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace stress {
namespace {

// A run that is silent for longer than this hangs.
constexpr unsigned kPatience_s = 300;

constexpr uint64_t kMagic = 0x3165736162;  // "base1"

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void Fail(const std::string& what) {
  perror(what.c_str());
  _exit(2);
}

void PutNumber(uint64_t number, FILE* out) { fwrite(&number, sizeof number, 1, out); }

void PutText(const std::string& text, FILE* out) {
  PutNumber(text.size(), out);
  fwrite(text.data(), 1, text.size(), out);
}

uint64_t GetNumber(FILE* in) {
  uint64_t number = 0;
  if (fread(&number, sizeof number, 1, in) != 1) Fail("reading the base");
  return number;
}

std::string GetText(FILE* in) {
  std::string text(GetNumber(in), '\0');
  if (fread(&text[0], 1, text.size(), in) != text.size()) Fail("reading the base");
  return text;
}

std::string Shown(const Table& table, const std::string& key) {
  auto at = table.find(key);
  if (at == table.end()) return "nothing";
  std::string start = at->second.substr(0, 40);
  return "\"" + start + "\" of " + std::to_string(at->second.size()) + " bytes";
}

std::string Fill(Random* random) {
  uint64_t length = random->OneIn(40) ? random->Below(20000) : random->Below(600);
  return std::string(length, static_cast<char>('a' + random->Below(26)));
}

}  // namespace

void Say(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  fflush(stdout);
  alarm(kPatience_s);
}

void Wrong(const std::string& what) {
  Say("WRONG: %s\n", what.c_str());
  _exit(1);
}

void TellOfCrashes() {
  signal(SIGSEGV, [](int number) {
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    signal(number, SIG_DFL);
    raise(number);
  });
}

const char* const kFamilyNames[kFamilies] = {"default", "single", "merge"};

Random::Random(uint64_t seed, uint64_t purpose, uint64_t index)
    : state_(Mix(Mix(Mix(seed) + purpose) + index)) {}

// SplitMix64.
uint64_t Random::Next() { return Mix(state_ += 0x9e3779b97f4a7c15); }

std::string RangeStart(int thread) { return "t" + std::to_string(thread) + "/"; }
std::string RangeEnd(int thread) { return "t" + std::to_string(thread) + "0"; }
std::string AtKey(int thread) { return RangeStart(thread) + "at"; }

std::string Key(int thread, uint64_t number) {
  char digits[8];
  snprintf(digits, sizeof digits, "k%04u", static_cast<unsigned>(number));
  return RangeStart(thread) + digits;
}

std::string Difference(const Table& expected, const Table& found) {
  auto e = expected.begin();
  auto f = found.begin();
  while (e != expected.end() && f != found.end() && *e == *f) ++e, ++f;
  std::string key = e == expected.end()  ? f->first
                    : f == found.end()   ? e->first
                                         : std::min(e->first, f->first);
  return key + ": expected " + Shown(expected, key) + ", found " + Shown(found, key);
}

std::vector<Op> NextBatch(uint64_t seed, int thread, ThreadState* state) {
  Random random(seed, 1 + static_cast<uint64_t>(thread), state->batches);
  std::string number = std::to_string(state->batches + 1);
  std::vector<Op> ops;
  for (uint64_t left = 1 + random.Below(5); left > 0; left--) {
    auto family = static_cast<Family>(random.Below(kFamilies));
    Table& table = state->tables[family];
    uint64_t at = random.Below(kKeys);
    std::string key = Key(thread, at), value = number + ":" + Fill(&random);
    uint64_t what = random.Below(100);
    if (family == kSingle) {
      // At most one put between two single deletes, and no other delete.
      bool is_there = table.erase(key) > 0;
      if (!is_there) table[key] = value;
      ops.push_back({is_there ? Op::kSingleDelete : Op::kPut, family, key, is_there ? "" : value});
    } else if (family == kPlain && what < 2) {
      std::string end = Key(thread, std::min(kKeys, at + 1 + random.Below(50)));
      table.erase(table.lower_bound(key), table.lower_bound(end));
      ops.push_back({Op::kDeleteRange, family, key, end});
    } else if (family == kMerge && what < 60) {
      auto old = table.find(key);
      if (old == table.end()) {
        table[key] = number;
      } else {
        old->second += "," + number;
      }
      ops.push_back({Op::kMergeInto, family, key, number});
    } else if (what < 75) {
      table[key] = value;
      ops.push_back({Op::kPut, family, key, value});
    } else {
      table.erase(key);
      ops.push_back({Op::kDelete, family, key, ""});
    }
  }
  state->tables[kPlain][AtKey(thread)] = number;
  ops.push_back({Op::kPut, kPlain, AtKey(thread), number});
  state->batches++;
  return ops;
}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

void Journal::Create(const std::string& path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd_ < 0) Fail(path);
}

void Journal::Put(char kind, uint64_t tick) {
  uint64_t record[2] = {static_cast<uint64_t>(kind), tick};
  if (write(fd_, record, sizeof record) != sizeof record) Fail("writing a journal");
}

std::string Expectation::JournalPath(uint64_t session, int thread) const {
  return dir_ + "/journal." + std::to_string(session) + "." + std::to_string(thread);
}

void Expectation::Load() {
  FILE* in = fopen((dir_ + "/base").c_str(), "rb");
  if (in == nullptr) return;
  if (GetNumber(in) != kMagic) Fail("no base");
  session_ = GetNumber(in);
  for (int thread = 0; thread < kThreads; thread++) {
    states[thread].batches = GetNumber(in);
    for (Table& table : states[thread].tables) {
      for (uint64_t left = GetNumber(in); left > 0; left--) {
        std::string key = GetText(in);
        table[key] = GetText(in);
      }
    }
    histories_[thread] = Read(thread);
  }
  fclose(in);
}

uint64_t Expectation::BatchCount() const {
  uint64_t count = 0;
  for (const ThreadState& state : states) count += state.batches;
  return count;
}

Expectation::History Expectation::Read(int thread) const {
  History history;
  FILE* in = fopen(JournalPath(session_, thread).c_str(), "rb");
  if (in == nullptr) return history;
  uint64_t record[2];
  while (fread(record, sizeof record, 1, in) == 1) {
    if (record[0] == 'B') {
      history.batches.push_back({record[1], 0, false});
    } else if (record[0] == 'M') {
      history.durable = std::max(history.durable, record[1]);
    } else {
      history.batches.back().acknowledged = record[1];
      history.batches.back().synced = record[0] == 'S';
      history.acknowledged++;
    }
  }
  fclose(in);
  return history;
}

std::string Expectation::Judge(const std::array<std::array<Table, kFamilies>, kThreads>& found,
                               bool is_whole) {
  std::array<uint64_t, kThreads> bases;
  for (int thread = 0; thread < kThreads; thread++) {
    const History& history = histories_[thread];
    ThreadState& state = states[thread];
    uint64_t base = bases[thread] = state.batches, acknowledged = base + history.acknowledged;
    auto at = found[thread][kPlain].find(AtKey(thread));
    uint64_t has =
        at == found[thread][kPlain].end() ? 0 : strtoull(at->second.c_str(), nullptr, 10);
    std::string who = "thread " + std::to_string(thread) + ": " + std::to_string(has) +
                      " batches are there";
    if (has < base) return who + ", an earlier opening found " + std::to_string(base);
    if (has > base + history.batches.size()) {
      return who + ", only " + std::to_string(base + history.batches.size()) + " were begun";
    }
    if (is_whole && has < acknowledged) {
      return who + " after a close, " + std::to_string(acknowledged) + " were acknowledged";
    }
    while (state.batches < has) NextBatch(seed_, thread, &state);
    for (int family = 0; family < kFamilies; family++) {
      if (state.tables[family] == found[thread][family]) continue;
      return who + ", but in " + kFamilyNames[family] + " " +
             Difference(state.tables[family], found[thread][family]);
    }
  }
  return Together(bases);
}

// Whether the threads' writes fit together. The log is one order, of which a crash leaves a prefix.
// If a write exists or is durable, then every write acknowledged before it began exists.
std::string Expectation::Together(const std::array<uint64_t, kThreads>& bases) const {
  uint64_t durable = 0, seen = 0;
  for (int thread = 0; thread < kThreads; thread++) {
    const std::vector<Batch>& batches = histories_[thread].batches;
    durable = std::max(durable, histories_[thread].durable);
    for (size_t i = 0; i < batches.size(); i++) {
      uint64_t has = states[thread].batches - bases[thread];
      if (batches[i].synced && i >= has) {
        return "LOST: thread " + std::to_string(thread) + ": batch " +
               std::to_string(bases[thread] + i + 1) + " was synced, the last that is there is " +
               std::to_string(states[thread].batches);
      }
      if (batches[i].synced) durable = std::max(durable, batches[i].began);
      if (i < has) seen = std::max(seen, batches[i].began);
    }
  }
  for (int thread = 0; thread < kThreads; thread++) {
    const std::vector<Batch>& batches = histories_[thread].batches;
    for (size_t i = states[thread].batches - bases[thread]; i < batches.size(); i++) {
      uint64_t tick = batches[i].acknowledged;
      if (tick == 0 || tick > std::max(durable, seen)) continue;
      std::string who = "thread " + std::to_string(thread) + ": batch " +
                        std::to_string(bases[thread] + i + 1) + " is not there, acknowledged at " +
                        std::to_string(tick);
      return tick <= durable ? "LOST: " + who + ", durable is all before " + std::to_string(durable)
                             : "HOLE: " + who + ", but one that began at " + std::to_string(seen);
    }
  }
  return "";
}

void Expectation::Begin(std::array<Journal, kThreads>* journals) {
  std::string path = dir_ + "/base";
  FILE* out = fopen((path + ".new").c_str(), "wb");
  if (out == nullptr) Fail(path);
  PutNumber(kMagic, out);
  PutNumber(session_ + 1, out);
  for (const ThreadState& state : states) {
    PutNumber(state.batches, out);
    for (const Table& table : state.tables) {
      PutNumber(table.size(), out);
      for (const auto& pair : table) PutText(pair.first, out), PutText(pair.second, out);
    }
  }
  if (fclose(out) != 0 || rename((path + ".new").c_str(), path.c_str()) != 0) Fail(path);
  for (int thread = 0; thread < kThreads; thread++) {
    if (session_ > 0) unlink(JournalPath(session_, thread).c_str());
    (*journals)[thread].Create(JournalPath(session_ + 1, thread));
  }
  session_++;
}

}  // namespace stress
