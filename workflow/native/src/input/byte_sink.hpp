// Bytes to a descriptor, buffered.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace acapella::input {

// A fault of the descriptor (no space left, a reader that went away) makes this and all later calls return
// false, and error() says it. A pipe that nobody reads is a fault like others: no SIGPIPE reaches the
// process.
class ByteSink {
  public:
    static constexpr std::chrono::milliseconds kNoTimeout{-1};

    // Called at least every kSlice while a descriptor takes nothing; may throw, to interrupt the wait.
    using WhileWaiting = std::function<void()>;
    static constexpr std::chrono::milliseconds kSlice{100};

    // The descriptor stays the caller's. A non-blocking one that takes nothing for `timeout` is a fault
    // (ETIMEDOUT).
    explicit ByteSink(int descriptor, std::chrono::milliseconds timeout = kNoTimeout,
                      WhileWaiting while_waiting = nullptr);
    ByteSink(const ByteSink&) = delete;
    ByteSink& operator=(const ByteSink&) = delete;

    void put(const void* from, std::size_t size);
    // Writes out what is buffered, where that is much.
    bool flush_if_full();
    // Writes out what is buffered. Nothing is written on destruction, where nobody could learn that it
    // failed.
    bool flush();

    [[nodiscard]] int error_number() const { return error_number_; }  // errno; 0: none
    [[nodiscard]] std::string error() const;

  private:
    int wait_for_room() const;
    int write_all(const std::byte* from, std::size_t size) const;

    int descriptor_;
    std::chrono::milliseconds timeout_;
    WhileWaiting while_waiting_;
    int error_number_ = 0;
    std::vector<std::byte> buffer_;
};

}  // namespace acapella::input
