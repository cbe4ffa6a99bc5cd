// The baseline of the record kernel: C++'s std::sort of whole 100-byte records by their first 10 bytes, which is what one
// writes first. Prints the seconds of every sort; says nothing of reading the file or of the copy that each sort begins
// with. benchmarks/record_kernel.py builds and runs it beside record_kernel.rs, which takes the same arguments.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

constexpr std::size_t kKeyBytes = 10;
constexpr std::size_t kRecordBytes = 100;

struct Record {
  unsigned char bytes[kRecordBytes];
};
static_assert(sizeof(Record) == kRecordBytes);

bool Less(const Record& a, const Record& b) {
  return std::memcmp(a.bytes, b.bytes, kKeyBytes) < 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: std_sort RECORDS_FILE SORTS\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary | std::ios::ate);
  std::vector<Record> input(static_cast<std::size_t>(file.tellg()) / kRecordBytes);
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(input.data()),
                 static_cast<std::streamsize>(input.size() * kRecordBytes))) {
    std::fprintf(stderr, "%s: cannot be read\n", argv[1]);
    return 1;
  }
  std::vector<Record> records(input.size());
  for (int sorts = std::atoi(argv[2]); sorts > 0; --sorts) {
    std::copy(input.begin(), input.end(), records.begin());
    const auto start = std::chrono::steady_clock::now();
    std::sort(records.begin(), records.end(), Less);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (!std::is_sorted(records.begin(), records.end(), Less)) {
      std::fprintf(stderr, "not in order\n");
      return 1;
    }
    std::printf("%.6f\n", took.count());
  }
  return 0;
}
