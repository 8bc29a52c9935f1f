#include "engine/text/grammar_compiler.h"

#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace monolith {
namespace {

constexpr int kShortMs = 20;   // enough for all but a few of the schemas met in the wild
constexpr int kNice = 10;
constexpr int kShortInARow = 8;   // before one that takes long has its turn after all

CompiledGrammar refused(const char* what) {
  return {nullptr, {{grammar::SchemaProblem::Kind::kTooLarge, "", "", what}}};
}

void lower_priority() {
#if defined(__linux__)
  // Of this thread: Linux gives each its own.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
#endif
}

}  // namespace

GrammarCompiler::~GrammarCompiler() {
  cache_.cancel();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
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
    known = refused("there is no thread to compile it");
  }
  if (known) wanted.done(std::move(*known));
  else wake_.notify_one();
}

// Takes `wanted` only if it does not throw.
void GrammarCompiler::enqueue(Wanted& wanted) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  fresh_.push_back(std::move(wanted));
}

void GrammarCompiler::run() {
  lower_priority();
  std::unique_lock lock(mutex_);
  int in_a_row = 0;
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || !fresh_.empty() || !long_.empty(); });
    if (closing_) return;
    const bool is_fresh = !fresh_.empty() && (long_.empty() || in_a_row < kShortInARow);
    in_a_row = is_fresh ? in_a_row + 1 : 0;
    std::deque<Wanted>& queue = is_fresh ? fresh_ : long_;
    Wanted wanted = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    CompiledGrammar compiled;
    bool is_long = false;
    try {
      if (auto known = cache_.find(wanted.options)) compiled = std::move(*known);   // meanwhile
      else compiled = cache_.compile(wanted.options, is_fresh ? kShortMs : 0, &is_long);
    } catch (const std::exception&) {
      compiled = refused("there is not enough memory to compile it");
    }
    lock.lock();
    if (is_long) {
      try {
        long_.push_back(std::move(wanted));
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
