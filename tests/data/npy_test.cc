#include "partita/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

// numpy.lib.format: magic, version 1.0, u16 length of a header that ends in a newline at a multiple of 64.
template <class T>
void expect_npy(const std::vector<T>& values, int64_t columns, const char* description) {
  const TemporaryDirectory folder;
  npy_file(folder / "a.npy", std::span<const T>(values), columns).commit();
  const std::string file = read_file(folder / "a.npy");
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  ASSERT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  uint16_t size = 0;
  std::memcpy(&size, file.data() + 8, sizeof size);
  EXPECT_EQ((10 + size) % 64, 0);
  const std::string header = file.substr(10, size);
  EXPECT_EQ(header.back(), '\n');
  EXPECT_EQ(header.substr(0, header.find('}') + 1), description);
  EXPECT_EQ(header.find_first_not_of(' ', header.find('}') + 1), header.size() - 1);
  EXPECT_EQ(file.substr(10 + size), data);
}

TEST(Npy, TypesAndShapes) {
  expect_npy<int16_t>({1, -2, 3}, 0, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }");
  expect_npy<uint32_t>({}, 0, "{'descr': '<u4', 'fortran_order': False, 'shape': (0,), }");
  expect_npy<int64_t>({1, 2, 3, 4, 5, 6}, 2, "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }");
  expect_npy<int32_t>({7}, 0, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }");
}

}  // namespace
}  // namespace partita::internal
