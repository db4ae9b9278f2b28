// A program without any knowledge of drives: threads write to a RocksDB database, read back what
// they wrote and keep it busy, until the process is killed or the database fails. The next run
// checks what is there. `cargo xtask stress` runs it on a drive.
//
//   stress_program DB DIR SEED BATCHES     runs BATCHES batches over all threads, then closes the database
//
// DIR, on the host, holds what is expected. A file "whole" in it says that the last run closed the
// database without a failure. The options follow from SEED and from how much is there. Prints "at
// N" after N batches.
// Exits with 0 after closing the database, 1 if it is wrong, 3 if it fails. Without BATCHES, a
// database on a drive too full to open it is opened read-only and checked; that exits with 3 as
// well.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../stress/state.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "stress_store.h"

namespace stress {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::ReadOptions;
using rocksdb::Status;

// After a wrong answer: it counts only if the drive can still be written. A scan in RocksDB before
// 8.7 skips a table whose first block cannot be read.
Status ProbeAfter(const std::string& wrong, DB* db) {
  rocksdb::WriteOptions options;
  options.sync = true;
  Status status = db->Put(options, "probe", "");
  if (status.ok()) Wrong(wrong);
  Say("not counted, the drive failed: %s\n", wrong.c_str());
  return status;
}

// State that all threads share.
struct Run {
  Store store;
  std::string path;
  uint64_t seed;
  uint64_t opening;
  uint64_t batch_count;
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> clock{1};
  std::atomic<bool> is_over{false};
};

// One thread: its range, its journal, its expected keys.
class Worker {
 public:
  Worker(Run* run, int thread, ThreadState* state, Journal* journal)
      : run_(run), db_(run->store.db), thread_(thread), state_(state), journal_(journal) {}

  void Work() {
    Status status;
    while (!run_->is_over) {
      uint64_t number = run_->begun++;
      if (number >= run_->batch_count) break;
      Random random(run_->seed, 200 + static_cast<uint64_t>(thread_), state_->batches);
      status = Write(&random);
      if (status.ok()) status = Check(&random);
      if (status.ok()) status = Maintain(&random);
      if (!status.ok()) {
        Say("error: thread %d: %s: %s\n", thread_, doing_, status.ToString().c_str());
        break;
      }
      if (number % 16 == 0) Say("at %llu\n", static_cast<unsigned long long>(number));
    }
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    if (!status.ok()) run_->is_over = true;
  }

 private:
  Status Write(Random* random) {
    doing_ = "write";
    rocksdb::WriteBatch batch;
    for (const Op& op : NextBatch(run_->seed, thread_, state_)) {
      ColumnFamilyHandle* family = run_->store.families[op.family];
      Status status;
      switch (op.kind) {
        case Op::kPut: status = batch.Put(family, op.key, op.value); break;
        case Op::kDelete: status = batch.Delete(family, op.key); break;
        case Op::kSingleDelete: status = batch.SingleDelete(family, op.key); break;
        case Op::kDeleteRange: status = batch.DeleteRange(family, op.key, op.value); break;
        case Op::kMergeInto: status = batch.Merge(family, op.key, op.value); break;
      }
      if (!status.ok()) return status;
    }
    rocksdb::WriteOptions options;
    options.sync = random->OneIn(8);
    journal_->Begin(run_->clock++);
    Status status = db_->Write(options, &batch);
    if (status.ok()) journal_->Acknowledged(run_->clock++, options.sync);
    return status;
  }

  Status Check(Random* random) {
    doing_ = "read";
    int family = static_cast<int>(random->Below(kFamilies));
    if (random->OneIn(60)) return CheckScan(run_->store, family, ReadOptions(), random->OneIn(2));
    if (random->OneIn(100)) return CheckSnapshot();
    std::vector<std::string> keys, values;
    for (uint64_t left = random->OneIn(4) ? 8 : 1; left > 0; left--) {
      keys.push_back(Key(thread_, random->Below(kKeys)));
    }
    std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<ColumnFamilyHandle*> families(keys.size(), run_->store.families[family]);
    std::vector<Status> statuses = db_->MultiGet(ReadOptions(), families, slices, &values);
    const Table& table = state_->tables[family];
    for (size_t i = 0; i < keys.size(); i++) {
      auto at = table.find(keys[i]);
      if (!statuses[i].ok() && !statuses[i].IsNotFound()) return statuses[i];
      if (statuses[i].ok() ? at != table.end() && at->second == values[i] : at == table.end()) continue;
      return Mismatch("get of " + keys[i] + " in " + kFamilyNames[family] + ": " +
                      (statuses[i].ok() ? "\"" + values[i].substr(0, 40) + "\"" : "nothing"));
    }
    return Status::OK();
  }

  Status CheckScan(const Store& store, int family, ReadOptions options, bool backwards) {
    return CompareScan(store, family, options, backwards, state_->tables[family], "scan");
  }

  Status CompareScan(const Store& store, int family, const ReadOptions& options, bool backwards,
                     const Table& expected, const char* what) {
    Table found;
    Status status = Scan(store, family, thread_, options, backwards, &found);
    if (status.ok() && found != expected) {
      return Mismatch(std::string(what) + " of thread " + std::to_string(thread_) + " in " +
                      kFamilyNames[family] + (backwards ? ", backwards: " : ": ") +
                      std::to_string(found.size()) + " keys of " +
                      std::to_string(expected.size()) + "; " + Difference(expected, found));
    }
    return status;
  }

  Status Mismatch(const std::string& what) {
    doing_ = "write after a wrong answer";
    return ProbeAfter(what, db_);
  }

  // Checks the snapshot taken earlier, and takes another.
  Status CheckSnapshot() {
    Status status;
    ReadOptions options;
    options.snapshot = snapshot_;
    for (int family = 0; snapshot_ != nullptr && family < kFamilies && status.ok(); family++) {
      status = CompareScan(run_->store, family, options, family == kPlain, then_[family], "snapshot");
    }
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = status.ok() ? db_->GetSnapshot() : nullptr;
    then_ = state_->tables;
    return status;
  }

  Status Maintain(Random* random) {
    if (random->OneIn(150)) return MakeDurable(random->OneIn(2));
    ColumnFamilyHandle* family = run_->store.families[random->Below(kFamilies)];
    if (random->OneIn(300)) {
      doing_ = "flush";
      return db_->Flush(rocksdb::FlushOptions(), family);
    }
    if (random->OneIn(600)) {
      doing_ = "compact range";
      std::string start = Key(thread_, random->Below(kKeys)), end = RangeEnd(thread_);
      rocksdb::Slice begin(start), behind(end);
      return db_->CompactRange(rocksdb::CompactRangeOptions(), family, &begin, &behind);
    }
    if (random->OneIn(1500)) return CheckCheckpoint();
    if (thread_ == 0 && random->OneIn(1000)) return CheckBackup();
    return Status::OK();
  }

  Status MakeDurable(bool by_log) {
    doing_ = by_log ? "sync of the log" : "flush of all";
    uint64_t tick = run_->clock++;
    Status status = by_log ? db_->FlushWAL(true)
                           : db_->Flush(rocksdb::FlushOptions(), run_->store.families);
    if (status.ok()) journal_->Durable(tick);
    return status;
  }

  // Checks that a copy of the database holds everything that this thread wrote.
  Status CheckCopy(const std::string& dir) {
    Store copy;
    Status status = OpenCopy(dir, run_->seed, run_->opening, db_->GetEnv(), &copy);
    for (int family = 0; family < kFamilies && status.ok(); family++) {
      status = CheckScan(copy, family, ReadOptions(), family == kMerge);
    }
    return status;
  }

  Status CheckCheckpoint() {
    doing_ = "checkpoint";
    std::string dir = run_->path + "-checkpoint" + std::to_string(thread_);
    RemoveDir(db_->GetEnv(), dir);
    rocksdb::Checkpoint* made = nullptr;
    Status status = rocksdb::Checkpoint::Create(db_, &made);
    std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    if (status.ok()) status = checkpoint->CreateCheckpoint(dir);
    return status.ok() ? CheckCopy(dir) : status;
  }

  Status CheckBackup() {
    doing_ = "backup";
    rocksdb::BackupEngine* made = nullptr;
    Status status = rocksdb::BackupEngine::Open(
        db_->GetEnv(), rocksdb::BackupEngineOptions(run_->path + "-backup"), &made);
    std::unique_ptr<rocksdb::BackupEngine> engine(made);
    if (status.ok()) status = engine->CreateNewBackup(db_, true);
    if (status.ok()) status = engine->PurgeOldBackups(2);
    std::string dir = run_->path + "-restored";
    RemoveDir(db_->GetEnv(), dir);
    if (status.ok()) status = engine->RestoreDBFromLatestBackup(dir, dir);
    return status.ok() ? CheckCopy(dir) : status;
  }

  Run* run_;
  DB* db_;
  int thread_;
  ThreadState* state_;
  Journal* journal_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::array<Table, kFamilies> then_;
  const char* doing_ = "";
};

Status JudgeAll(const Store& store, bool is_whole, bool only_reads, Expectation* expectation) {
  std::array<std::array<Table, kFamilies>, kThreads> found;
  ReadOptions options;
  options.verify_checksums = true;
  for (int thread = 0; thread < kThreads; thread++) {
    for (int family = 0; family < kFamilies; family++) {
      Status status = Scan(store, family, thread, options, false, &found[thread][family]);
      if (!status.ok()) return status;
    }
  }
  std::string reason = expectation->Judge(found, is_whole);
  if (reason.empty()) return Status::OK();
  // A full drive has its power, but takes no write that would show it.
  if (only_reads) Wrong(reason);
  return ProbeAfter(reason, store.db);
}

int Failed(const char* doing, const Status& status) {
  Say("error: %s: %s\n", doing, status.ToString().c_str());
  return 3;
}

int Main(const std::string& path, const std::string& dir, uint64_t seed, uint64_t batch_count) {
  Expectation expectation(dir, seed);
  expectation.Load();
  uint64_t opening = expectation.BatchCount();
  Run run;
  run.path = path, run.seed = seed, run.opening = opening, run.batch_count = batch_count;
  Say("opening\n");
  Status status = Open(path, seed, opening, &run.store);
  bool only_reads = status.IsNoSpace() && batch_count == 0;
  if (only_reads) {
    Say("too full to open, and only read: %s\n", status.ToString().c_str());
    status = OpenToRead(path, seed, opening, &run.store);
  }
  if (!status.ok()) return Failed("open", status);
  std::string whole = dir + "/whole";
  status = JudgeAll(run.store, access(whole.c_str(), F_OK) == 0, only_reads, &expectation);
  if (!status.ok()) return Failed("read all", status);
  if (only_reads) {
    Say("verified %llu batches\n", static_cast<unsigned long long>(expectation.BatchCount()));
    return 3;
  }
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
  status = run.store.db->FlushWAL(true);
  if (!status.ok()) return Failed("sync of the log", status);
  Say("closing\n");
  return 0;
}

}  // namespace
}  // namespace stress

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: stress_program DB DIR SEED BATCHES\n");
    return 2;
  }
  stress::TellOfCrashes();
  return stress::Main(argv[1], argv[2], strtoull(argv[3], nullptr, 10),
                      strtoull(argv[4], nullptr, 10));
}
