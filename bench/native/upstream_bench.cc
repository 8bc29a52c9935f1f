// Benchmark of requests that Monolith forwards to an upstream. This program is both the client and a mock upstream, on
// one thread that waits in epoll. It is written in C++ so that garbage collection does not disturb the measurement. The
// measured time of a request consists of the time in Monolith, the time in the operating system's kernel, and about 20
// microseconds on this thread.
//
// Prints {"port": N} with the port of the mock upstream, then executes one command per input line:
//
//   drive PORT KEY|- MODEL RATE UNCOUNTED COUNTED [MAX_IN_FLIGHT]
//
// The command sends UNCOUNTED + COUNTED requests to PORT at RATE requests per second, with at most MAX_IN_FLIGHT
// requests in flight (0 = no limit). Then it prints one line of results:
//
//   {"failed": N, "accepted": N, "late_us": N, "ms": [...], "out_ms": [...]}
//
// - failed: number of requests without a complete response
// - accepted: number of connections that the mock upstream accepted
// - late_us: average delay between a request's scheduled time and its sending, in microseconds
// - ms: for each of the last COUNTED requests, the milliseconds from sending it to receiving the first token
// - out_ms: for the same requests, the milliseconds from sending until the mock upstream has the complete body
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kGiveUp = 5 * kSecond;
constexpr std::string_view kMark = "request #";

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

[[noreturn]] void give_up(const char* what) {
  perror(what);
  std::exit(1);
}

uint64_t number_after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  uint64_t number = UINT64_MAX;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + mark.size(), text.data() + text.size(), number);
  return number;
}

struct Request {
  int64_t sent = 0, arrived = 0, first = 0;
};

struct Connection {
  int fd = -1;
  bool asks = false;  // True for client connections, false for connections of the mock upstream.
  bool open = true;
  bool waits = false;    // True while the response to `request` is outstanding.
  uint64_t request = 0;  // Index of the last request sent on this connection.
  std::string read;
};

std::string event(std::string_view data) { return "data: " + std::string(data) + "\n\n"; }

const std::string& answer() {
  static const std::string text = [] {
    const std::string body =
        event(
            R"({"id":"chat","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word0"},"finish_reason":null}]})") +
        event(R"({"id":"chat","choices":[{"index":0,"delta":{},"finish_reason":"length"}]})") +
        event(
            R"({"id":"chat","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}})") +
        event("[DONE]");
    std::ostringstream whole;
    whole << "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nkeep-alive: timeout=60\r\ntransfer-encoding: "
             "chunked\r\n\r\n"
          << std::hex << body.size() << "\r\n"
          << body << "\r\n0\r\n\r\n";
    return whole.str();
  }();
  return text;
}

class Bench {
 public:
  Bench()
      : epoll_(epoll_create1(0)),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 4096) != 0)
      give_up("listen");
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    printf("{\"port\": %d}\n", ntohs(address.sin_port));
    fflush(stdout);
    watch(listener_, &listener_);
    watch(timer_, &timer_);
    watch(STDIN_FILENO, &told_);
  }

  void drive(int port, const std::string& key, const std::string& model, int64_t rate, uint64_t uncounted,
             uint64_t counted, uint64_t most) {
    port_ = port, key_ = key, model_ = model;
    requests_.assign(uncounted + counted, {});
    sent_ = done_ = failed_ = 0;
    int64_t late = 0, last = now_ns();
    const int64_t begun = last;
    while (done_ < requests_.size()) {
      const int64_t now = now_ns();
      if (now > last + kGiveUp && sent_ == requests_.size()) break;
      while (sent_ < requests_.size() && sent_ - done_ < most &&
             begun + static_cast<int64_t>(sent_) * kSecond / rate <= now) {
        late += now - (begun + static_cast<int64_t>(sent_) * kSecond / rate);
        ask();
        last = now;
      }
      if (sent_ < requests_.size() && sent_ - done_ < most)
        wake_at(begun + static_cast<int64_t>(sent_) * kSecond / rate);
      turn();
    }
    report(uncounted, late);
  }

  // Waits for the next line on stdin while serving connections. Returns false at end of input.
  bool wait_for_line(std::string& line) {
    for (;;) {
      if (const size_t end = told_.find('\n'); end != std::string::npos) {
        line = told_.substr(0, end);
        told_.erase(0, end + 1);
        return true;
      }
      if (ended_) return false;
      turn();
    }
  }

 private:
  void watch(int fd, void* who) {
    epoll_event wanted{.events = EPOLLIN, .data = {.ptr = who}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &wanted) != 0) give_up("epoll_ctl");
  }

  void wake_at(int64_t ns) {
    const itimerspec at{.it_interval = {}, .it_value = {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond}};
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr);
  }

  void turn() {
    epoll_event events[64];
    const int count = epoll_wait(epoll_, events, 64, 1000);
    for (int i = 0; i < count; ++i) {
      if (void* who = events[i].data.ptr; who == &timer_) {
        uint64_t times = 0;
        if (read(timer_, &times, sizeof times) < 0) continue;
      } else if (who == &told_) {
        char bytes[4096];
        const ssize_t read_bytes = read(STDIN_FILENO, bytes, sizeof bytes);
        if (read_bytes > 0) told_.append(bytes, static_cast<size_t>(read_bytes));
        ended_ = read_bytes <= 0;
      } else if (who == &listener_) {
        accept_all();
      } else {
        receive(*static_cast<Connection*>(who));
      }
    }
    std::erase_if(connections_, [](const auto& one) { return !one->open; });
  }

  Connection& add(int fd, bool asks) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.push_back(std::make_unique<Connection>(Connection{.fd = fd, .asks = asks, .read = {}}));
    watch(fd, connections_.back().get());
    return *connections_.back();
  }

  void accept_all() {
    for (int fd = 0; (fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK)) >= 0; ++accepted_) add(fd, false);
  }

  void ask() {
    const uint64_t number = sent_++;
    std::vector<Connection*>& idle = idle_[port_];
    if (idle.empty()) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{.sin_family = AF_INET,
                          .sin_port = htons(static_cast<uint16_t>(port_)),
                          .sin_addr = {htonl(INADDR_LOOPBACK)},
                          .sin_zero = {}};
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("connect");
      fcntl(fd, F_SETFL, O_NONBLOCK);
      idle.push_back(&add(fd, true));
    }
    Connection& connection = *idle.back();
    idle.pop_back();
    connection.request = number;
    connection.waits = true;
    const std::string body =
        R"({"model":")" + model_ +
        R"(","stream":true,"max_tokens":1,"messages":[{"role":"user","content":"Tell me a long story about a lighthouse. )" +
        std::string(kMark) + std::to_string(number) + R"("}]})";
    const std::string text =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n" +
        (key_ == "-" ? "" : "authorization: Bearer " + key_ + "\r\n") +
        "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    requests_[number].sent = now_ns();
    if (write(connection.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail(connection);
  }

  void receive(Connection& connection) {
    char bytes[16384];
    for (;;) {
      const ssize_t count = read(connection.fd, bytes, sizeof bytes);
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) return connection.asks ? fail(connection) : drop(connection);
      connection.read.append(bytes, static_cast<size_t>(count));
      if (connection.asks)
        hear(connection);
      else
        serve(connection);
      if (!connection.open || count < static_cast<ssize_t>(sizeof bytes)) return;
    }
  }

  // Mock upstream: answers every complete request immediately with the whole response.
  void serve(Connection& connection) {
    const size_t head = connection.read.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const uint64_t length = number_after(std::string_view(connection.read).substr(0, head), "content-length: ");
    if (length == UINT64_MAX) {  // No body: the server is requesting the list of models.
      constexpr std::string_view none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
      if (write(connection.fd, none.data(), none.size()) < 0) drop(connection);
      return connection.read.clear();
    }
    if (connection.read.size() < head + 4 + length) return;
    if (const uint64_t number = number_after(connection.read, kMark); number < requests_.size())
      requests_[number].arrived = now_ns();
    connection.read.clear();
    if (write(connection.fd, answer().data(), answer().size()) < 0) drop(connection);
  }

  // Client: reads the response.
  void hear(Connection& connection) {
    Request& request = requests_[connection.request];
    if (request.first == 0 && connection.read.find("word0") != std::string::npos) request.first = now_ns();
    if (!connection.read.ends_with("0\r\n\r\n")) return;
    if (request.first == 0) return fail(connection);
    connection.read.clear();
    ++done_;
    connection.waits = false;
    idle_[port_].push_back(&connection);
  }

  void fail(Connection& connection) {
    if (connection.waits) {
      ++failed_;
      ++done_;
      requests_[connection.request].first = 0;
    }
    for (auto& [port, idle] : idle_) std::erase(idle, &connection);
    drop(connection);
  }

  void drop(Connection& connection) {
    if (connection.open) close(connection.fd);
    connection.open = false;
  }

  void report(uint64_t uncounted, int64_t late) {
    std::string ms, out;
    const auto add = [](std::string& list, int64_t ns) {
      char text[32];
      snprintf(text, sizeof text, "%s%.4f", list.empty() ? "" : ",", static_cast<double>(ns) / 1e6);
      list += text;
    };
    for (uint64_t i = uncounted; i < requests_.size(); ++i) {
      const Request& one = requests_[i];
      if (one.first == 0) continue;
      add(ms, one.first - one.sent);
      add(out, one.arrived - one.sent);
    }
    printf("{\"failed\": %llu, \"accepted\": %llu, \"late_us\": %.3f, \"ms\": [%s], \"out_ms\": [%s]}\n",
           static_cast<unsigned long long>(failed_ + requests_.size() - done_),
           static_cast<unsigned long long>(std::exchange(accepted_, 0)),
           static_cast<double>(late) / 1e3 / static_cast<double>(requests_.size()), ms.c_str(), out.c_str());
    fflush(stdout);
  }

  int epoll_, listener_, timer_;
  int port_ = 0;
  std::string key_, model_;
  std::vector<Request> requests_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<int, std::vector<Connection*>> idle_;  // Unused client connections by port.
  std::string told_;
  bool ended_ = false;
  uint64_t sent_ = 0, done_ = 0, failed_ = 0, accepted_ = 0;
};

}  // namespace

int main() {
  Bench bench;
  std::string line;
  while (bench.wait_for_line(line)) {
    std::istringstream words(line);
    std::string command, key, model;
    int port = 0;
    int64_t rate = 0;
    uint64_t uncounted = 0, counted = 0, most = UINT64_MAX;
    if (!(words >> command >> port >> key >> model >> rate >> uncounted >> counted) || command != "drive" ||
        rate <= 0) {
      fprintf(stderr,
              "stdin: expected \"drive PORT KEY|- MODEL RATE UNCOUNTED COUNTED [MAX_IN_FLIGHT]\" (got \"%s\")\n",
              line.c_str());
      return 2;
    }
    words >> most;
    bench.drive(port, key, model, rate, uncounted, counted, most == 0 ? UINT64_MAX : most);
  }
}
