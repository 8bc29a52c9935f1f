#include "engine/grammar_compiler.h"

#include <exception>
#include <system_error>
#include <utility>

#include "engine/thread_priority.h"

namespace monolith {
namespace {

constexpr int kShortMs = 20;   // enough for all but a few of the schemas met in the wild

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
  if (auto known = cache_.find(options)) return done(std::move(*known));
  {
    const std::lock_guard lock(mutex_);
    try {
      if (!short_thread_.joinable()) short_thread_ = std::thread([this] { run(fresh_, kShortMs); });
      if (!long_thread_.joinable()) long_thread_ = std::thread([this] { run(long_, 0); });
      fresh_.push_back({std::move(options), done});
      done = nullptr;
    } catch (const std::system_error&) {   // the system has no thread left
    }
  }
  if (done) return done(refused("there is no thread to compile it on"));
  wake_.notify_all();
}

void GrammarCompiler::run(std::deque<Wanted>& queue, int short_ms) {
  lower_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || !queue.empty(); });
    if (closing_) return;
    Wanted wanted = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    CompiledGrammar compiled;
    bool is_long = false;
    try {
      if (auto known = cache_.find(wanted.options)) compiled = std::move(*known);   // meanwhile
      else compiled = cache_.compile(wanted.options, short_ms, &is_long);
    } catch (const std::exception&) {
      compiled = refused("there is not enough memory to compile it");
    }
    if (!is_long) wanted.done(std::move(compiled));
    lock.lock();
    if (!is_long) continue;
    long_.push_back(std::move(wanted));
    wake_.notify_all();
  }
}

}  // namespace monolith
