#include "input/byte_sink.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace acapella::input {
namespace {

constexpr std::size_t kFlushAt = std::size_t{256} << 10;

// Prevents SIGPIPE from ending the process: the signal is blocked during a write, and discarded if the write
// raised it.
class NoSigpipe {
  public:
    NoSigpipe() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    NoSigpipe(const NoSigpipe&) = delete;
    NoSigpipe& operator=(const NoSigpipe&) = delete;

    ~NoSigpipe() {
        if (!was_pending_) {
            const timespec now{};
            while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    sigset_t pipe_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

}  // namespace

ByteSink::ByteSink(int descriptor, std::chrono::milliseconds timeout, WhileWaiting while_waiting)
    : descriptor_(descriptor), timeout_(timeout), while_waiting_(std::move(while_waiting)) {
    buffer_.reserve(kFlushAt + (std::size_t{64} << 10));
}

// Waits until a non-blocking descriptor accepts more data. Returns errno or 0.
int ByteSink::wait_for_room() const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (timeout_ < timeout_.zero() || Clock::now() - start < timeout_) {
        const auto slice = timeout_ < timeout_.zero() ? kSlice : std::min(kSlice, timeout_);
        pollfd ready{descriptor_, POLLOUT, 0};
        const int descriptors = ::poll(&ready, 1, static_cast<int>(slice.count()));
        if (descriptors > 0) return 0;
        if (descriptors < 0 && errno != EINTR) return errno;
        if (while_waiting_) while_waiting_();
    }
    return ETIMEDOUT;
}

// Writes everything. Returns errno or 0.
int ByteSink::write_all(const std::byte* from, std::size_t size) const {
    const NoSigpipe guard;
    while (size > 0) {
        const ssize_t done = ::write(descriptor_, from, size);
        if (done < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) return errno;
            if (const int fault = wait_for_room(); fault != 0) return fault;
            continue;
        }
        if (done == 0) return EIO;
        from += done;
        size -= static_cast<std::size_t>(done);
    }
    return 0;
}

void ByteSink::put(const void* from, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(from);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
}

bool ByteSink::flush_if_full() { return error_number_ == 0 && (buffer_.size() < kFlushAt || flush()); }

bool ByteSink::flush() {
    if (error_number_ == 0) {
        error_number_ = write_all(buffer_.data(), buffer_.size());
        buffer_.clear();
    }
    return error_number_ == 0;
}

std::string ByteSink::error() const { return error_number_ == 0 ? "" : std::strerror(error_number_); }

}  // namespace acapella::input
