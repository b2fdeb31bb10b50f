// Buffered output to a descriptor.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace acapella::input {

// Once writing has failed (no space left, broken pipe), flush() and flush_if_full() return false, and error()
// describes the error. A broken pipe does not raise SIGPIPE.
class ByteSink {
  public:
    static constexpr std::chrono::milliseconds kNoTimeout{-1};

    // Called about every kSlice while a descriptor accepts no data; may throw to interrupt the wait.
    using WhileWaiting = std::function<void()>;
    static constexpr std::chrono::milliseconds kSlice{100};

    // The caller keeps ownership of the descriptor. If a non-blocking descriptor accepts no data for
    // `timeout`, the error is ETIMEDOUT.
    explicit ByteSink(int descriptor, std::chrono::milliseconds timeout = kNoTimeout,
                      WhileWaiting while_waiting = nullptr);
    ByteSink(const ByteSink&) = delete;
    ByteSink& operator=(const ByteSink&) = delete;

    void put(const void* from, std::size_t size);
    // Writes the buffer if it is full.
    bool flush_if_full();
    // Writes the buffer. The destructor does not write it, because it could not report an error.
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
