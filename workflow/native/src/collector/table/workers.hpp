// Threads that run one job together, each a part of it, and wait for each other.
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace acapella::collector {

class Workers {
  public:
    explicit Workers(unsigned count);
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    ~Workers();

    unsigned count() const { return count_; }
    // Calls job(part) in parallel for each part below count(); the calling thread runs the first part.
    // Returns when all parts are done, and rethrows the first exception.
    void run(const std::function<void(unsigned)>& job);

  private:
    void serve(unsigned part);
    void run_part(unsigned part);

    unsigned count_;
    const std::function<void(unsigned)>* job_ = nullptr;  // null: the threads end
    std::barrier<> start_;
    std::barrier<> done_;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_;
};

}  // namespace acapella::collector
