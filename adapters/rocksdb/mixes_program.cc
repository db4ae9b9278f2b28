// A program without any knowledge of drives: it loads pairs of 1 KB into a RocksDB database, every
// key once in random order. It then reads and overwrites them as YCSB's scrambled Zipfian chooses.
// `cargo xtask databases mixes` runs it on a drive.
//
//   mixes_program DB OPTIONS load COUNT                           puts COUNT pairs into a new database
//   mixes_program DB OPTIONS mix COUNT OPERATIONS PERCENT SEED    runs OPERATIONS operations, PERCENT of them reads
//
// OPTIONS are RocksDB's own, as a string. A read that does not find its pair ends the program.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "../pairs.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace {

constexpr double kTheta = 0.99;

void Need(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return;
  fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  exit(1);
}

// Numbers below `count`, a few of them often. After Gray et al., "Quickly generating billion-record
// synthetic databases", as YCSB draws them. The caller scatters the ranks.
class Zipfian {
 public:
  explicit Zipfian(uint64_t count) : count_(count), zeta_(Zeta(count)) {
    const double n = static_cast<double>(count);
    eta_ = (1 - std::pow(2 / n, 1 - kTheta)) / (1 - Zeta(2) / zeta_);
  }

  uint64_t Draw(std::mt19937_64& random) const {
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    if (u * zeta_ < 1) return 0;
    if (u * zeta_ < 1 + std::pow(0.5, kTheta)) return 1;
    const double rank = static_cast<double>(count_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta));
    return std::min(static_cast<uint64_t>(rank), count_ - 1);
  }

 private:
  static double Zeta(uint64_t count) {
    double sum = 0;
    for (uint64_t at = 1; at <= count; at++) sum += 1 / std::pow(static_cast<double>(at), kTheta);
    return sum;
  }

  uint64_t count_;
  double zeta_;
  double eta_;
};

uint64_t Number(const char* text) { return strtoull(text, nullptr, 10); }

}  // namespace

int main(int argc, char** argv) {
  const bool is_load = argc == 5 && strcmp(argv[3], "load") == 0;
  if (!is_load && (argc != 8 || strcmp(argv[3], "mix") != 0)) {
    fprintf(stderr, "usage: mixes_program DB OPTIONS load COUNT | mix COUNT OPERATIONS PERCENT SEED\n");
    return 2;
  }
  rocksdb::Options options;
  Need(rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), rocksdb::Options(), argv[2], &options),
       "options");
  options.create_if_missing = is_load;
  options.error_if_exists = is_load;
  rocksdb::DB* opened = nullptr;
  Need(rocksdb::DB::Open(options, argv[1], &opened), "open");
  std::unique_ptr<rocksdb::DB> db(opened);
  const uint64_t count = Number(argv[4]);
  std::string value(kValueLenBytes, 'v');
  const auto put = [&](uint64_t number, uint64_t version) {
    memcpy(&value[0], &version, sizeof(version));
    Need(db->Put(rocksdb::WriteOptions(), Key(number), value), "put");
  };
  if (is_load) {
    for (uint64_t number = 0; number < count; number++) put(number, 0);
    printf("loaded %llu pairs\n", static_cast<unsigned long long>(count));
    return 0;
  }
  const uint64_t operations = Number(argv[5]), read_percent = Number(argv[6]);
  std::mt19937_64 random(Number(argv[7]));
  const Zipfian zipfian(count);
  std::string found;
  uint64_t reads = 0;
  for (uint64_t at = 0; at < operations; at++) {
    const uint64_t number = Scatter(zipfian.Draw(random)) % count;
    if (random() % 100 >= read_percent) {
      put(number, 1 + at);
      continue;
    }
    reads++;
    Need(db->Get(rocksdb::ReadOptions(), Key(number), &found), "get");
    if (found.size() != kValueLenBytes) {
      fprintf(stderr, "pair %llu has %zu bytes\n", static_cast<unsigned long long>(number), found.size());
      return 1;
    }
  }
  printf("read %llu pairs\n", static_cast<unsigned long long>(reads));
  return 0;
}
