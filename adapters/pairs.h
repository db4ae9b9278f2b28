// Pairs of 1 KB, each key once and in random order: the load of the programs that measure databases
// on drives.

#ifndef IMBREX_PAIRS_H_
#define IMBREX_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

constexpr size_t kKeyLenBytes = 16;
constexpr size_t kValueLenBytes = 1008;

// SplitMix64 maps different numbers to different numbers, so no key occurs twice.
inline uint64_t Scatter(uint64_t number) {
  uint64_t mixed = number + 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

inline std::string Key(uint64_t number) {
  char key[kKeyLenBytes + 1];
  snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(Scatter(number)));
  return std::string(key, kKeyLenBytes);
}

#endif  // IMBREX_PAIRS_H_
