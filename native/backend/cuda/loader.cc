#include "backend/cuda/loader.h"

#include <algorithm>
#include <cstring>

#include "base/control_group.h"

namespace monolith::cuda {
namespace {

// This many threads read the page cache faster than a device accepts data.
constexpr int kMaxThreads = 8;

}  // namespace

Loader::~Loader() {
  for (Piece& piece : pieces_) {
    runtime_.free(piece.staging);
    runtime_.free_pinned(piece.host);
  }
}

Status Loader::start() {
  for (Piece& piece : pieces_) {
    auto event = runtime_.make_event();
    if (!event) return event.error();
    piece.free = std::move(*event);
  }
  return resize(usual_bytes_);
}

Status Loader::resize(size_t bytes) {
  runtime_.synchronize();
  piece_bytes_ = 0;
  for (Piece& piece : pieces_) {
    runtime_.free(piece.staging);
    runtime_.free_pinned(piece.host);
    piece.staging = piece.host = nullptr;
  }
  for (Piece& piece : pieces_) {
    auto memory = runtime_.allocate_pinned(bytes);
    if (!memory) return memory.error();
    piece.host = *memory;
  }
  piece_bytes_ = bytes;
  return {};
}

Status Loader::prepare(size_t bytes) {
  if (bytes > piece_bytes_)
    if (Status status = resize(bytes); !status) return status;
  for (Piece& piece : pieces_) {
    if (piece.staging) continue;
    auto memory = runtime_.allocate(piece_bytes_);
    if (!memory) return memory.error();
    piece.staging = *memory;
  }
  if (!threads_) threads_ = std::make_unique<ThreadPool>(std::min(usable_processors(), kMaxThreads));
  return {};
}

Status Loader::rest() {
  runtime_.synchronize();
  threads_.reset();
  for (Piece& piece : pieces_) {
    runtime_.free(piece.staging);
    piece.staging = nullptr;
  }
  return piece_bytes_ > usual_bytes_ ? resize(usual_bytes_) : Status{};
}

Loader::Piece& Loader::next() {
  Piece& piece = pieces_[turn_];
  turn_ = (turn_ + 1) % pieces_.size();
  runtime_.wait(*piece.free);
  return piece;
}

void Loader::write(void* to, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += piece_bytes_) {
    const size_t n = std::min(piece_bytes_, bytes - at);
    Piece& piece = next();
    std::memcpy(piece.host, static_cast<const std::byte*>(from) + at, n);
    runtime_.upload(static_cast<std::byte*>(to) + at, piece.host, n);
    runtime_.record(*piece.free);
  }
}

void Loader::read(void* to, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += piece_bytes_) {
    const size_t n = std::min(piece_bytes_, bytes - at);
    Piece& piece = next();
    runtime_.download(piece.host, static_cast<const std::byte*>(from) + at, n);
    runtime_.record(*piece.free);
    runtime_.wait(*piece.free);
    std::memcpy(static_cast<std::byte*>(to) + at, piece.host, n);
  }
}

}  // namespace monolith::cuda
