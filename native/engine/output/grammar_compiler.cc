#include "engine/output/grammar_compiler.h"

#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/thread_pool.h"

namespace monolith {
namespace {

constexpr int kShortMs = 20;  // Time limit on the first thread. Enough for nearly all JSON schemas found in practice.

CompiledGrammar refused(const char* what) {
  return {nullptr, {{grammar::SchemaProblem::Kind::kTooLarge, "", "", what}}};
}

}  // namespace

GrammarCompiler::~GrammarCompiler() {
  cache_.cancel();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread* thread : {&short_thread_, &long_thread_})
    if (thread->joinable()) thread->join();
  for (auto* queue : {&fresh_, &long_})
    for (Wanted& wanted : *queue) wanted.done(refused("the engine was closed"));
}

void GrammarCompiler::compile(grammar::GrammarOptions options, Done done) {
  Wanted wanted{std::move(options), std::move(done)};
  std::optional<CompiledGrammar> known;
  try {
    known = cache_.find(wanted.options);
    if (!known) enqueue(wanted);
  } catch (const std::bad_alloc&) {
    known = refused("there is not enough memory to compile it");
  } catch (const std::system_error&) {
    known = refused("the compiler thread could not be started");
  }
  if (known)
    wanted.done(std::move(*known));
  else
    wake_.notify_all();
}

// Moves from `wanted` only if no exception is thrown.
void GrammarCompiler::enqueue(Wanted& wanted) {
  const std::lock_guard lock(mutex_);
  if (!short_thread_.joinable()) short_thread_ = std::thread([this] { run(fresh_, kShortMs); });
  if (!long_thread_.joinable()) long_thread_ = std::thread([this] { run(long_, 0); });
  fresh_.push_back(std::move(wanted));
}

void GrammarCompiler::trim() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(trim_, true)) return;
  }
  wake_.notify_all();
}

void GrammarCompiler::run(std::deque<Wanted>& queue, int short_ms) {
  use_process_affinity();
  lower_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool trims = &queue == &long_;
    wake_.wait(lock, [&] { return closing_ || !queue.empty() || (trims && trim_); });
    if (closing_) return;
    if (trims && std::exchange(trim_, false)) {
      lock.unlock();
      try {
        cache_.trim();
      } catch (const std::bad_alloc&) {  // Ignored, because trim() will be called again.
      }
      lock.lock();
      continue;
    }
    Wanted wanted = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    CompiledGrammar compiled;
    bool is_long = false;
    try {
      // Returns the cached grammar if it has been compiled in the meantime.
      compiled = cache_.compile(wanted.options, short_ms, &is_long);
    } catch (const std::exception&) {
      compiled = refused("there is not enough memory to compile it");
    }
    lock.lock();
    if (is_long) {
      try {
        long_.push_back(std::move(wanted));
        wake_.notify_all();
        continue;
      } catch (const std::bad_alloc&) {
        compiled = refused("there is not enough memory to compile it");
      }
    }
    lock.unlock();
    wanted.done(std::move(compiled));
    lock.lock();
  }
}

}  // namespace monolith
