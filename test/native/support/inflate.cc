#include "support/inflate.h"

#include <string_view>

namespace monolith::testing {

std::optional<std::vector<uint8_t>> Inflate::zlib(std::span<const uint8_t> bytes) {
  if (bytes.size() < 6) return std::nullopt;
  Inflate inflate(bytes.subspan(2, bytes.size() - 6));
  if (!inflate.run()) return std::nullopt;
  return std::move(inflate.out_);
}

Inflate::Codes::Codes(std::span<const uint8_t> lengths) {
  for (const uint8_t length : lengths) ++count[length];
  count[0] = 0;
  for (int length = 1; length < 16; ++length)
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol)
      if (lengths[symbol] == length) symbols.push_back(static_cast<int>(symbol));
}

int Inflate::bits(int n) {
  int value = 0;
  for (int i = 0; i < n; ++i, ++at_) {
    if (at_ / 8 >= in_.size()) return failed_ = true, 0;
    value |= (in_[at_ / 8] >> (at_ % 8) & 1) << i;
  }
  return value;
}

int Inflate::symbol(const Codes& codes) {
  int code = 0, first = 0, index = 0;
  for (size_t length = 1; length < 16 && !failed_; ++length) {
    code |= bits(1);
    const int count = codes.count[length];
    if (code - count < first) return codes.symbols[static_cast<size_t>(index + code - first)];
    index += count;
    first = (first + count) << 1;
    code <<= 1;
  }
  return failed_ = true, 256;
}

void Inflate::stored() {
  at_ = (at_ + 7) / 8 * 8;
  const int length = bits(16);
  bits(16);
  for (int i = 0; i < length && !failed_; ++i) out_.push_back(static_cast<uint8_t>(bits(8)));
}

void Inflate::block(const Codes& literals, const Codes& distances) {
  static constexpr int kLength[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  static constexpr int kDistance[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  for (int next; !failed_ && (next = symbol(literals)) != 256;) {
    if (next < 256) {
      out_.push_back(static_cast<uint8_t>(next));
      continue;
    }
    next -= 257;
    const int length = kLength[next] + bits(next < 8 || next == 28 ? 0 : (next - 4) / 4);
    const int far = symbol(distances);
    const auto distance = static_cast<size_t>(kDistance[far] + bits(far < 4 ? 0 : (far - 2) / 2));
    if (distance > out_.size()) failed_ = true;
    for (int i = 0; i < length && !failed_; ++i) out_.push_back(out_[out_.size() - distance]);
  }
}

void Inflate::dynamic() {
  static constexpr size_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const auto n_literals = static_cast<size_t>(bits(5) + 257), n_distances = static_cast<size_t>(bits(5) + 1);
  const auto n_lengths = static_cast<size_t>(bits(4) + 4);
  std::array<uint8_t, 19> meta{};
  for (size_t i = 0; i < n_lengths; ++i) meta[kOrder[i]] = static_cast<uint8_t>(bits(3));
  const Codes codes(meta);
  std::vector<uint8_t> lengths;
  while (lengths.size() < n_literals + n_distances && !failed_) {
    const int next = symbol(codes);
    if (next < 16) lengths.push_back(static_cast<uint8_t>(next));
    if (next == 16)
      lengths.insert(lengths.end(), static_cast<size_t>(bits(2) + 3), lengths.empty() ? uint8_t{0} : lengths.back());
    if (next == 17) lengths.insert(lengths.end(), static_cast<size_t>(bits(3) + 3), uint8_t{0});
    if (next == 18) lengths.insert(lengths.end(), static_cast<size_t>(bits(7) + 11), uint8_t{0});
  }
  if (failed_ || lengths.size() != n_literals + n_distances) return void(failed_ = true);
  block(Codes(std::span(lengths).first(n_literals)), Codes(std::span(lengths).subspan(n_literals)));
}

bool Inflate::run() {
  for (bool last = false; !last && !failed_;) {
    last = bits(1) == 1;
    const int kind = bits(2);
    if (kind == 0) stored();
    if (kind == 1) {
      std::vector<uint8_t> lengths(288, 8);
      for (size_t i = 144; i < 280; ++i) lengths[i] = i < 256 ? 9 : 7;
      block(Codes(lengths), Codes(std::vector<uint8_t>(30, 5)));
    }
    if (kind == 2) dynamic();
    if (kind == 3) failed_ = true;
  }
  return !failed_;
}

std::optional<Picture> read_png(std::span<const uint8_t> file) {
  const auto number = [&](size_t at) {
    return static_cast<size_t>(file[at]) << 24 | static_cast<size_t>(file[at + 1]) << 16 |
           static_cast<size_t>(file[at + 2]) << 8 | file[at + 3];
  };
  Picture picture;
  std::vector<uint8_t> packed, palette;
  int color = 0;
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t length = number(at);
    const std::string_view kind(reinterpret_cast<const char*>(file.data()) + at + 4, 4);
    if (at + 12 + length > file.size()) return std::nullopt;
    const std::span<const uint8_t> data = file.subspan(at + 8, length);
    if (kind == "IHDR") {
      picture.width = static_cast<int>(number(at + 8));
      picture.height = static_cast<int>(number(at + 12));
      color = data[9];
      if (data[8] != 8 || data[12] != 0) return std::nullopt;
    } else if (kind == "PLTE") {
      palette.assign(data.begin(), data.end());
    } else if (kind == "IDAT") {
      packed.insert(packed.end(), data.begin(), data.end());
    }
    at += 12 + length;
  }
  const size_t channels = color == 2 ? 3 : color == 6 ? 4 : color == 4 ? 2 : 1;
  const size_t row = channels * static_cast<size_t>(picture.width), height = static_cast<size_t>(picture.height);
  const auto lines = Inflate::zlib(packed);
  if (!lines || lines->size() != height * (row + 1)) return std::nullopt;
  std::vector<uint8_t> before(row), own(row);
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* line = lines->data() + y * (row + 1);
    for (size_t i = 0; i < row; ++i) {
      const int left = i >= channels ? own[i - channels] : 0, up = before[i],
                corner = i >= channels ? before[i - channels] : 0;
      const int draft = left + up - corner, a = std::abs(draft - left), b = std::abs(draft - up),
                c = std::abs(draft - corner);
      const int paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      const int added[] = {0, left, up, (left + up) / 2, paeth};
      if (line[0] > 4) return std::nullopt;
      own[i] = static_cast<uint8_t>(line[1 + i] + added[line[0]]);
    }
    for (size_t x = 0; x < static_cast<size_t>(picture.width); ++x) {
      const uint8_t* pixel = own.data() + x * channels;
      if (color == 3 && pixel[0] * 3u + 2 >= palette.size()) return std::nullopt;
      const uint8_t* from = color == 3 ? &palette[pixel[0] * 3u] : pixel;
      const bool gray = color == 0 || color == 4;
      picture.rgb.insert(picture.rgb.end(), {from[0], from[gray ? 0 : 1], from[gray ? 0 : 2]});
    }
    before = own;
  }
  return picture;
}

}  // namespace monolith::testing
