// A program without any knowledge of drives: threads write to a LevelDB database and read back what
// they wrote, until the process is killed or the database fails. The next run checks what is there.
// `cargo xtask stress --database leveldb` runs it on a drive.
//
//   leveldb_stress DB DIR SEED BATCHES     as adapters/rocksdb/stress_program.cc
//
// LevelDB has one column family; the key's first letter splits it into three. Puts and deletes
// replace merges, single deletes and range deletes.
//
// The program avoids two faults of LevelDB 1.23 (docs/results/stress.md):
//   - it crashes when a manual compaction meets an I/O error: no ranges are compacted;
//   - deleted keys may come back if a snapshot was held: with an odd seed no snapshot is ever held,
//     with an even seed nothing is ever deleted, only marked as deleted.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../stress/state.h"
#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

namespace stress {
namespace {

using leveldb::DB;
using leveldb::ReadOptions;
using leveldb::Status;

std::string KeyIn(int family, const std::string& key) {
  return std::string(1, static_cast<char>('a' + family)) + key;
}

bool HoldsSnapshots(uint64_t seed) { return seed % 2 == 0; }

// The value that marks a deleted key, with an even seed.
const char kGone[] = "gone";

void Delete(uint64_t seed, const std::string& key, leveldb::WriteBatch* batch) {
  HoldsSnapshots(seed) ? batch->Put(key, kGone) : batch->Delete(key);
}

Status Open(const std::string& path, uint64_t seed, uint64_t opening, std::unique_ptr<DB>* db) {
  Random run(seed, 101, opening);
  leveldb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.write_buffer_size = 65536 << run.Below(3);
  options.max_file_size = 1 << 20;
  options.max_open_files = run.OneIn(2) ? 74 : 1000;
  options.block_size = 1024 << run.Below(4);
  options.compression = run.OneIn(2) ? leveldb::kNoCompression : leveldb::kSnappyCompression;
  // Readers learn from the table whether it has a filter.
  static const leveldb::FilterPolicy* const kFilter = leveldb::NewBloomFilterPolicy(10);
  options.filter_policy = run.OneIn(2) ? kFilter : nullptr;
  DB* opened = nullptr;
  Status status = DB::Open(options, path, &opened);
  db->reset(opened);
  return status;
}

// Reads all keys of a thread in one family, forwards or backwards.
Status Scan(DB* db, int family, int thread, const ReadOptions& options, bool backwards,
            Table* table) {
  std::string start = KeyIn(family, RangeStart(thread)), end = KeyIn(family, RangeEnd(thread));
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(options));
  it->Seek(backwards ? end : start);
  if (backwards) it->Valid() ? it->Prev() : it->SeekToLast();
  std::string last;
  for (; it->Valid(); backwards ? it->Prev() : it->Next()) {
    std::string key = it->key().ToString();
    if (backwards ? key < start : key >= end) break;
    if (!last.empty() && (backwards ? key >= last : key <= last)) {
      Wrong("iterator: " + key + " comes after " + last);
    }
    std::string value = it->value().ToString();
    if (value != kGone) (*table)[key.substr(1)] = value;
    last = key;
  }
  return it->status();
}

// After a wrong answer: it counts only if the drive can still be written.
Status ProbeAfter(const std::string& wrong, DB* db) {
  leveldb::WriteOptions options;
  options.sync = true;
  Status status = db->Put(options, "probe", "");
  if (status.ok()) Wrong(wrong);
  Say("not counted, the drive failed: %s\n", wrong.c_str());
  return status;
}

// State that all threads share.
struct Run {
  std::unique_ptr<DB> db;
  uint64_t seed;
  uint64_t batch_count;
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> clock{1};
  std::atomic<bool> is_over{false};
};

// One thread: its range, its journal, its expected keys.
class Worker {
 public:
  Worker(Run* run, int thread, ThreadState* state, Journal* journal)
      : run_(run), db_(run->db.get()), thread_(thread), state_(state), journal_(journal) {}

  void Work() {
    Status status;
    while (!run_->is_over) {
      uint64_t number = run_->begun++;
      if (number >= run_->batch_count) break;
      Random random(run_->seed, 200 + static_cast<uint64_t>(thread_), state_->batches);
      status = Write(&random);
      if (status.ok()) status = Check(&random);
      if (!status.ok()) {
        Say("error: thread %d: %s\n", thread_, status.ToString().c_str());
        break;
      }
      if (number % 16 == 0) Say("at %llu\n", static_cast<unsigned long long>(number));
    }
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    if (!status.ok()) run_->is_over = true;
  }

 private:
  Status Write(Random* random) {
    leveldb::WriteBatch batch;
    Table before = state_->tables[kPlain];
    for (const Op& op : NextBatch(run_->seed, thread_, state_)) {
      const Table& table = state_->tables[op.family];
      auto merged = table.find(op.key);
      switch (op.kind) {
        case Op::kPut: batch.Put(KeyIn(op.family, op.key), op.value); break;
        case Op::kDelete:
        case Op::kSingleDelete: Delete(run_->seed, KeyIn(op.family, op.key), &batch); break;
        case Op::kDeleteRange:
          for (auto at = before.lower_bound(op.key); at != before.lower_bound(op.value); ++at) {
            Delete(run_->seed, KeyIn(op.family, at->first), &batch);
          }
          break;
        case Op::kMergeInto:
          // The value after the batch; if there is none then, a delete follows.
          if (merged != table.end()) batch.Put(KeyIn(op.family, op.key), merged->second);
          break;
      }
      // A range that is deleted later in this batch also deletes what is put here.
      if (op.family == kPlain && op.kind == Op::kPut) before[op.key] = op.value;
    }
    leveldb::WriteOptions options;
    options.sync = random->OneIn(8);
    journal_->Begin(run_->clock++);
    Status status = db_->Write(options, &batch);
    if (status.ok()) journal_->Acknowledged(run_->clock++, options.sync);
    return status;
  }

  Status Check(Random* random) {
    int family = static_cast<int>(random->Below(kFamilies));
    if (random->OneIn(60)) {
      return CheckScan(family, ReadOptions(), random->OneIn(2), state_->tables[family]);
    }
    if (random->OneIn(100) && HoldsSnapshots(run_->seed)) return CheckSnapshot();
    std::string key = Key(thread_, random->Below(kKeys)), value;
    Status status = db_->Get(ReadOptions(), KeyIn(family, key), &value);
    auto at = state_->tables[family].find(key);
    bool is_there = at != state_->tables[family].end();
    if (!status.ok() && !status.IsNotFound()) return status;
    bool is_found = status.ok() && value != kGone;
    if (is_found != is_there || (is_there && at->second != value)) {
      return Mismatch("get of " + key + " in " + kFamilyNames[family] + ": " + status.ToString() +
                      " " + value.substr(0, 40));
    }
    return Status::OK();
  }

  Status CheckScan(int family, const ReadOptions& options, bool backwards, const Table& expected) {
    Table found;
    Status status = Scan(db_, family, thread_, options, backwards, &found);
    if (status.ok() && found != expected) {
      return Mismatch("scan of thread " + std::to_string(thread_) + " in " + kFamilyNames[family] +
                      ": " + Difference(expected, found));
    }
    return status;
  }

  Status Mismatch(const std::string& what) {
    return ProbeAfter(what, db_);
  }

  // Checks the snapshot taken earlier, and takes another.
  Status CheckSnapshot() {
    Status status;
    ReadOptions options;
    options.snapshot = snapshot_;
    for (int family = 0; snapshot_ != nullptr && family < kFamilies && status.ok(); family++) {
      status = CheckScan(family, options, family == kPlain, then_[family]);
    }
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = status.ok() ? db_->GetSnapshot() : nullptr;
    then_ = state_->tables;
    return status;
  }

  Run* run_;
  DB* db_;
  int thread_;
  ThreadState* state_;
  Journal* journal_;
  const leveldb::Snapshot* snapshot_ = nullptr;
  std::array<Table, kFamilies> then_;
};

Status JudgeAll(DB* db, bool is_whole, Expectation* expectation) {
  std::array<std::array<Table, kFamilies>, kThreads> found;
  ReadOptions options;
  options.verify_checksums = true;
  for (int thread = 0; thread < kThreads; thread++) {
    for (int family = 0; family < kFamilies; family++) {
      Status status = Scan(db, family, thread, options, false, &found[thread][family]);
      if (!status.ok()) return status;
    }
  }
  std::string reason = expectation->Judge(found, is_whole);
  if (reason.empty()) return Status::OK();
  return ProbeAfter(reason, db);
}

int Failed(const char* doing, const Status& status) {
  Say("error: %s: %s\n", doing, status.ToString().c_str());
  return 3;
}

int Main(const std::string& path, const std::string& dir, uint64_t seed, uint64_t batch_count) {
  Expectation expectation(dir, seed);
  expectation.Load();
  Run run;
  run.seed = seed, run.batch_count = batch_count;
  Say("opening\n");
  Status status = Open(path, seed, expectation.BatchCount(), &run.db);
  if (!status.ok()) return Failed("open", status);
  std::string whole = dir + "/whole";
  status = JudgeAll(run.db.get(), access(whole.c_str(), F_OK) == 0, &expectation);
  if (!status.ok()) return Failed("read all", status);
  unlink(whole.c_str());
  std::array<Journal, kThreads> journals;
  expectation.Begin(&journals);
  Say("verified %llu batches\n", static_cast<unsigned long long>(expectation.BatchCount()));
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; thread++) {
    workers.emplace_back(
        new Worker(&run, thread, &expectation.states[thread], &journals[thread]));
    threads.emplace_back(&Worker::Work, workers.back().get());
  }
  for (std::thread& thread : threads) thread.join();
  if (run.is_over) return 3;
  Say("closing\n");
  return 0;
}

}  // namespace
}  // namespace stress

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: leveldb_stress DB DIR SEED BATCHES\n");
    return 2;
  }
  stress::TellOfCrashes();
  return stress::Main(argv[1], argv[2], strtoull(argv[3], nullptr, 10),
                      strtoull(argv[4], nullptr, 10));
}
