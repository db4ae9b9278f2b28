#include "stress_store.h"

#include <memory>

#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/options.h"

namespace stress {
namespace {

using rocksdb::DB;
using rocksdb::Status;

rocksdb::ColumnFamilyOptions FamilyOptions(Random* seed, Random* run, int family) {
  rocksdb::ColumnFamilyOptions options;
  // These options must not change between openings.
  bool is_universal = seed->OneIn(3);
  options.compaction_style =
      is_universal ? rocksdb::kCompactionStyleUniversal : rocksdb::kCompactionStyleLevel;
  options.level_compaction_dynamic_level_bytes = seed->OneIn(2);
  if (family == kMerge) {
    Status status = rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(),
                                                             "stringappend",
                                                             &options.merge_operator);
    if (!status.ok()) Wrong(status.ToString());
  }
  const rocksdb::CompressionType kCompressions[] = {rocksdb::kNoCompression,
                                                    rocksdb::kSnappyCompression,
                                                    rocksdb::kLZ4Compression, rocksdb::kZSTD};
  options.compression = kCompressions[run->Below(4)];
  options.write_buffer_size = 32768 << run->Below(4);
  options.max_write_buffer_number = 2 + static_cast<int>(run->Below(3));
  options.target_file_size_base = 16384 << run->Below(4);
  options.max_bytes_for_level_base = 65536 << run->Below(4);
  options.level0_file_num_compaction_trigger = 2 + static_cast<int>(run->Below(3));
  options.paranoid_file_checks = run->OneIn(3);
  options.force_consistency_checks = true;
  options.enable_blob_files = family != kMerge && run->OneIn(3);
  options.min_blob_size = 300;
  options.blob_file_size = 128 << 10;
  options.enable_blob_garbage_collection = run->OneIn(2);
  options.blob_garbage_collection_age_cutoff = 0.5;
  return options;
}

rocksdb::DBOptions DatabaseOptions(const std::string& path, Random* seed, Random* run) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.paranoid_checks = true;
  if (seed->OneIn(4)) options.wal_dir = path + "-wal";
  options.max_background_jobs = 2 + static_cast<int>(run->Below(4));
  options.max_subcompactions = 1 + static_cast<uint32_t>(run->Below(3));
  options.max_open_files = run->OneIn(3) ? 20 : -1;
  options.max_manifest_file_size = 8192 << run->Below(4);
  options.max_log_file_size = 64 << 10;
  options.keep_log_file_num = 3;
  options.max_total_wal_size = run->OneIn(3) ? 256 << 10 : 0;
  options.recycle_log_file_num = run->OneIn(4) ? 2 : 0;
  options.manual_wal_flush = run->OneIn(5);
  options.wal_compression = run->OneIn(5) ? rocksdb::kZSTD : rocksdb::kNoCompression;
  options.wal_bytes_per_sync = run->OneIn(4) ? 64 << 10 : 0;
  options.enable_pipelined_write = run->OneIn(3);
  options.avoid_flush_during_recovery = run->OneIn(3);
  options.avoid_flush_during_shutdown = run->OneIn(3);
  options.track_and_verify_wals_in_manifest =
      options.recycle_log_file_num == 0 && run->OneIn(3);
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(Random* fixed, Random* run) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (int family = 0; family < kFamilies; family++) {
    families.emplace_back(kFamilyNames[family], FamilyOptions(fixed, run, family));
  }
  return families;
}

}  // namespace

Status Open(const std::string& path, uint64_t seed, uint64_t opening, Store* store) {
  Random fixed(seed, 100, 0), run(seed, 101, opening);
  rocksdb::DBOptions options = DatabaseOptions(path, &fixed, &run);
  return DB::Open(options, path, Families(&fixed, &run), &store->families, &store->db);
}

Status OpenToRead(const std::string& path, uint64_t seed, uint64_t opening, Store* store) {
  Random fixed(seed, 100, 0), run(seed, 101, opening);
  rocksdb::DBOptions options = DatabaseOptions(path, &fixed, &run);
  return DB::OpenForReadOnly(options, path, Families(&fixed, &run), &store->families, &store->db);
}

Status OpenCopy(const std::string& path, uint64_t seed, uint64_t opening, rocksdb::Env* env,
                Store* store) {
  Random fixed(seed, 100, 0), run(seed, 101, opening);
  rocksdb::DBOptions options = DatabaseOptions(path, &fixed, &run);
  options.env = env;
  options.wal_dir = "";
  return DB::OpenForReadOnly(options, path, Families(&fixed, &run), &store->families, &store->db);
}

rocksdb::Status Scan(const Store& store, int family, int thread, rocksdb::ReadOptions options, bool backwards,
            Table* table) {
  std::string start = RangeStart(thread), end = RangeEnd(thread);
  rocksdb::Slice lower(start), upper(end);
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  std::unique_ptr<rocksdb::Iterator> it(store.db->NewIterator(options, store.families[family]));
  std::string last;
  for (backwards ? it->SeekToLast() : it->SeekToFirst(); it->Valid();
       backwards ? it->Prev() : it->Next()) {
    std::string key = it->key().ToString();
    if (!last.empty() && (backwards ? key >= last : key <= last)) {
      Wrong("iterator: " + key + " comes after " + last);
    }
    (*table)[key] = it->value().ToString();
    last = key;
  }
  return it->status();
}

void RemoveDir(rocksdb::Env* env, const std::string& dir) {
  std::vector<std::string> names;
  env->GetChildren(dir, &names).PermitUncheckedError();
  for (const std::string& name : names) {
    env->DeleteFile(dir + "/" + name).PermitUncheckedError();
  }
  env->DeleteDir(dir).PermitUncheckedError();
}

}  // namespace stress
