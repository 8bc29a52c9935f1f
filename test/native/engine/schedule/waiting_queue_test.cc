// Tests the fair order of the queue in isolation, with sequences that either always fit or never fit.
#include "engine/schedule/waiting_queue.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "check.h"
#include "engine/sequence.h"

namespace monolith {
namespace {

struct Line {
  WaitingQueue queue;
  std::vector<std::unique_ptr<Request>> requests;
  std::set<const ScheduledSequence*> lacking;  // Sequences that lack pages and are never admitted.
  std::set<const ScheduledSequence*> later;    // Sequences that return kNotNow.

  ScheduledSequence& add(char organization, int n = 1) {
    GenerationRequest params;
    params.prompt = {1};
    params.organization = static_cast<uint64_t>(organization);
    params.max_tokens = 1;
    params.n = n;
    requests.push_back(
        std::make_unique<Request>(static_cast<RequestId>(requests.size() + 1), nullptr, std::move(params), 10, 10));
    requests.back()->choices[0]->arrival = requests.size();
    queue.push(*requests.back()->choices[0]);
    return *requests.back()->choices[0];
  }

  ScheduledSequence* take() {
    return queue.admit([](const ScheduledSequence&) { return true; },
                       [&](ScheduledSequence& sequence) {
                         if (lacking.contains(&sequence)) return AdmissionResult::kNoRoom;
                         return later.contains(&sequence) ? AdmissionResult::kNotNow : AdmissionResult::kAdmitted;
                       },
                       [](const ScheduledSequence& sequence) { return sequence.request.params.n; });
  }

  // Returns the organizations of the next `n` sequences taken from the queue.
  std::string order(int n) {
    std::string names;
    for (int i = 0; i < n; ++i)
      if (const ScheduledSequence* taken = take()) names += static_cast<char>(taken->request.params.organization);
    return names;
  }
};

TEST(waiting_queue_takes_organizations_in_turn_and_requests_in_order) {
  Line line;
  std::vector<const ScheduledSequence*> of_a;
  for (int i = 0; i < 5; ++i) of_a.push_back(&line.add('a'));
  line.add('b');
  line.add('b');
  line.add('c');
  CHECK_EQ(line.queue.requests(), size_t{8});
  CHECK(line.take() == of_a[0]);
  CHECK_EQ(line.order(3), std::string("bca"));
  line.add('d');  // Comes after the sequences that are already waiting.
  CHECK_EQ(line.order(1), std::string("b"));
  CHECK(line.take() == of_a[2]);
  CHECK_EQ(line.order(1), std::string("d"));
  CHECK(line.take() == of_a[3]);
  CHECK(line.take() == of_a[4]);
  CHECK(line.take() == nullptr);
  CHECK(line.queue.empty());
}

TEST(waiting_queue_counts_choices_rather_than_requests) {
  Line line;
  for (int i = 0; i < 8; ++i) line.add('a', 4);
  for (int i = 0; i < 12; ++i) line.add('b');
  for (int i = 0; i < 6; ++i) line.add('c', 2);
  CHECK_EQ(line.order(14), std::string("abcbbcbabcbbcb"));  // Eight slots each.
}

// An organization's debt remains while it has no request in the queue, and is cleared when no request of any
// organization is waiting.
TEST(waiting_queue_remembers_debts_while_others_wait) {
  Line line;
  for (int i = 0; i < 6; ++i) line.add('b');
  line.add('a', 4);
  CHECK_EQ(line.order(2), std::string("ba"));
  line.add('a');
  CHECK_EQ(line.order(6), std::string("bbbbab"));
  line.add('a', 100);
  CHECK_EQ(line.order(1), std::string("a"));
  line.add('b');
  line.add('a');
  CHECK_EQ(line.order(2), std::string("ba"));
}

// If two organizations both have a debt, the one with the smaller debt comes first until both have had the same number
// of slots.
TEST(waiting_queue_settles_several_debts_together) {
  Line line;
  line.add('a', 4);
  line.add('b', 6);
  for (int i = 0; i < 6; ++i) line.add('a'), line.add('b');
  CHECK_EQ(line.order(2), std::string("ab"));
  CHECK_EQ(line.order(8), std::string("aaababab"));
}

TEST(waiting_queue_does_not_starve_organizations_with_debt) {
  Line line;
  line.add('a', kMaxChoices);
  line.add('a');
  for (int i = 0; i < 4; ++i) line.add(static_cast<char>('b' + i));
  int taken = 0;
  for (; taken < 2000; ++taken) {
    const ScheduledSequence* sequence = line.take();
    REQUIRE(sequence != nullptr);
    const auto organization = static_cast<char>(sequence->request.params.organization);
    if (organization != 'a') line.add(organization);  // It waits again immediately.
    if (organization == 'a' && sequence->request.params.n == 1) break;
  }
  // Before this organization's next turn, each other organization gets one turn for every slot of this organization's
  // debt.
  CHECK_EQ(taken, 1 + 4 * (kMaxChoices - 1) + 4);
}

TEST(waiting_queue_passes_a_request_without_pages_a_limited_number_of_times) {
  Line line;
  ScheduledSequence& large = line.add('a');
  line.add('a');  // Never passes the request before it.
  for (int i = 0; i < 40; ++i) line.add(i % 2 ? 'b' : 'c');
  line.lacking = {&large};
  const std::string passing = line.order(60);
  CHECK_EQ(passing.size(), size_t{WaitingQueue::kMaxPasses});
  CHECK(passing.find('a') == std::string::npos);
  CHECK(line.take() == nullptr);
  line.lacking.clear();
  CHECK(line.take() == &large);
  CHECK_EQ(line.order(3).size(), size_t{3});

  // As soon as its first page is free, the request gets its turn, no matter how few requests have overtaken it. After
  // the request is cancelled, it blocks no other request.
  Line other;
  ScheduledSequence& first = other.add('a');
  for (int i = 0; i < 60; ++i) other.add('b');
  other.lacking = {&first};
  CHECK_EQ(other.order(3), std::string("bbb"));
  other.lacking.clear();
  CHECK(other.take() == &first);
  ScheduledSequence& second = other.add('a');
  other.lacking = {&second};
  // One regular turn of the other organization, plus the number of times that requests may overtake this one.
  CHECK_EQ(other.order(60).size(), size_t{1 + WaitingQueue::kMaxPasses});
  other.queue.remove(second);
  CHECK_EQ(other.order(5), std::string("bbbbb"));
}

TEST(waiting_queue_checks_a_limited_number_of_requests_without_pages) {
  Line line;
  for (int i = 0; i < 20; ++i) line.lacking.insert(&line.add(static_cast<char>('a' + i)));
  line.add('z');
  CHECK(line.take() == nullptr);
  CHECK_EQ(line.queue.requests(), size_t{21});
  line.lacking.erase(line.requests[7]->choices[0].get());
  CHECK_EQ(line.order(1), std::string("h"));
}

TEST(waiting_queue_deducts_slots_granted_early_from_later_turns) {
  Line line;
  for (int i = 0; i < 6; ++i) line.add('a');
  for (int i = 0; i < 3; ++i) line.add('b');
  const auto claim = [&](char who) {
    const ScheduledSequence* taken = line.queue.admit(
        [](const ScheduledSequence&) { return true; }, [](ScheduledSequence&) { return AdmissionResult::kAdmitted; },
        [](const ScheduledSequence&) { return 1; }, [&](uint64_t id) { return id == static_cast<uint64_t>(who); });
    return taken ? static_cast<char>(taken->request.params.organization) : '-';
  };
  CHECK_EQ(claim('c'), '-');
  CHECK_EQ(claim('b'), 'b');
  CHECK_EQ(line.queue.prompt_tokens(), size_t{8});
  CHECK_EQ(line.order(5), std::string("aabab"));  // One turn of b is already used.
  CHECK_EQ(claim('a'), 'a');
}

TEST(waiting_queue_lets_others_pass_while_a_page_is_being_computed) {
  Line line;
  ScheduledSequence& waits = line.add('a');
  line.add('a');
  line.add('b');
  line.later = {&waits};
  CHECK_EQ(line.order(3), std::string("b"));
  line.later.clear();
  CHECK(line.take() == &waits);
}

TEST(waiting_queue_removes_cancelled_requests) {
  Line line;
  ScheduledSequence& a1 = line.add('a');
  ScheduledSequence& a2 = line.add('a');
  ScheduledSequence& b1 = line.add('b');
  ScheduledSequence& c1 = line.add('c');
  line.add('c');
  line.queue.remove(a1);
  line.queue.remove(a1);  // A second removal has no effect.
  CHECK_EQ(line.queue.requests(), size_t{4});
  CHECK(line.take() == &a2);  // The organization keeps its turn.
  line.queue.remove(b1);
  CHECK(line.take() == &c1);
  CHECK_EQ(line.order(2), std::string("c"));
  CHECK(line.queue.empty());
  std::vector<Request*> found;
  ScheduledSequence& late = line.add('a');
  line.add('b');
  line.queue.collect([&](const ScheduledSequence& sequence) { return &sequence == &late; }, found);
  CHECK(found == std::vector<Request*>{&late.request});
}

}  // namespace
}  // namespace monolith
