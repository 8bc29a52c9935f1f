// Tests image resizing: the results are known bytes, and are the same with every SIMD instruction set.
#include <random>

#include "check.h"
#include "vision/resize.h"

using namespace monolith;

namespace {

std::vector<uint8_t> noise(PictureSize size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.pixels()) * 3);
  for (uint8_t& byte : pixels) byte = static_cast<uint8_t>(random());
  return pixels;
}

std::vector<uint8_t> gray(std::initializer_list<int> levels) {
  std::vector<uint8_t> pixels;
  for (const int level : levels) pixels.insert(pixels.end(), 3, static_cast<uint8_t>(level));
  return pixels;
}

}  // namespace

TEST(resizing_gives_the_same_bytes_with_every_instruction_set) {
  const PictureSize sizes[] = {{1, 1}, {2, 3}, {17, 5}, {64, 40}, {133, 71}, {1, 90}, {300, 2}};
  uint32_t seed = 0;
  for (const PictureSize from : sizes)
    for (const PictureSize to : sizes)
      for (const Filter filter : {Filter::kBilinear, Filter::kBicubic}) {
        const auto source = noise(from, ++seed);
        CHECK(stretch(resize_kernels(), filter, source.data(), from, to) ==
              stretch(resize_kernels(true), filter, source.data(), from, to));
      }
}

TEST(bilinear_aligns_corners_and_truncates_bicubic_aligns_at_zero_and_rounds) {
  const auto two = gray({0, 255});
  const ResizeKernels& kernels = resize_kernels();
  CHECK(stretch(kernels, Filter::kBilinear, two.data(), {2, 1}, {3, 1}) == gray({0, 127, 255}));
  CHECK(stretch(kernels, Filter::kBilinear, two.data(), {2, 1}, {1, 1}) == gray({0}));
  // The expected values are p1 + a1 t + a2 t^2 + a3 t^3 at positions 0, 2/3 and 4/3 of the source, whose last pixel is
  // repeated.
  CHECK(stretch(kernels, Filter::kBicubic, two.data(), {2, 1}, {3, 1}) == gray({0, 173, 255}));
  const auto even = gray({77, 77, 77, 77});
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic})
    for (const uint8_t byte : stretch(kernels, filter, even.data(), {2, 2}, {13, 9})) CHECK_EQ(int{byte}, 77);
}

TEST(an_image_keeps_its_aspect_ratio_and_is_centered_in_the_padding) {
  const auto wide = gray({200, 200, 200, 200});
  const uint8_t pad[3] = {1, 2, 3};
  const auto out = fit_with_padding(resize_kernels(), Filter::kBilinear, wide.data(), {4, 1}, {8, 5}, pad);
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 8; ++x)
      for (int color = 0; color < 3; ++color)
        CHECK_EQ(int{out[static_cast<size_t>((y * 8 + x) * 3 + color)]}, y == 1 || y == 2 ? 200 : color + 1);
  CHECK(fit_with_padding(resize_kernels(), Filter::kBicubic, wide.data(), {4, 1}, {4, 1}, pad) == wide);
}

TEST(sizes_follow_the_image_within_limits) {
  CHECK((smart_size({130, 75}, 28, 8 * 784, 4096 * 784) == PictureSize{140, 84}));
  CHECK((smart_size({20, 20}, 28, 8 * 784, 4096 * 784) == PictureSize{84, 84}));
  const PictureSize less = smart_size({5000, 3000}, 28, 8 * 784, 1024 * 784);
  CHECK(less.pixels() <= 1024 * 784 && less.width % 28 == 0 && less.height % 28 == 0);
  CHECK((best_candidate({300, 100}, std::vector<std::pair<int, int>>{{100, 100}, {200, 100}, {300, 100}, {100, 300}}) ==
         PictureSize{300, 100}));
  CHECK((nearest_grid({1100, 540}, 10, 512) == PictureSize{2, 1}));
  CHECK((fitted_size({100, 50}, {50, 50}) == PictureSize{50, 25}));
}
