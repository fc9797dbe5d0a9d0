#include "core/threads.hpp"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace muntin {
namespace {

constexpr int kSpins = 4000;  // some ten microseconds, before a thread sleeps

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Job {
  Job(const std::function<void(size_t)>* task, size_t tasks, Poll poll) : task(task), tasks(tasks), poll(poll) {}

  const std::function<void(size_t)>* task;
  size_t tasks;
  Poll poll;
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;

  static thread_local const Job* mine;  // that this thread works on
  const std::thread::id caller = std::this_thread::get_id();

  void work() {
    const Job* const outer = std::exchange(mine, this);  // a signal's handler may call in the middle of a task
    work_off();
    mine = outer;
  }

  bool interrupted() const { return poll != nullptr && caller == std::this_thread::get_id() && poll(); }

 private:
  void work_off() {
    for (size_t at; !failed.load(std::memory_order_relaxed) && (at = next.fetch_add(1)) < tasks;) {
      try {
        if (interrupted()) throw Interrupted();
        (*task)(at);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
};

thread_local const Job* Job::mine = nullptr;

class ThreadPool {
 public:
  static ThreadPool& instance() {
    static const bool registered = [] {
      // A forked child has none of the threads, and locks that will never be opened: it starts with a pool of its own.
      pthread_atfork(nullptr, nullptr, [] {
        const int size = current_->size_;
        current_ = new ThreadPool();
        current_->size_ = size;
      });
      return true;
    }();
    (void)registered;
    return *current_;
  }

  int size() const { return size_; }

  void resize(int threads) {
    const std::lock_guard turn(turn_);
    stop();
    size_ = threads;
  }

  void run(Job& job, int most) {
    std::unique_lock turn(turn_, std::try_to_lock);
    const int others = turn.owns_lock() ? std::min<int>(std::min(size(), most) - 1, job.tasks > 1 ? job.tasks - 1 : 0) : 0;
    if (others <= 0) {
      job.work();
      return;
    }
    while (static_cast<int>(workers_.size()) < size() - 1) workers_.emplace_back([this] { serve(); });
    job_ = &job;
    places_.store(others);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    job.work();
    places_.store(0);
    while (inside_.load() != 0) pause();
  }

 private:
  void serve() {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; epoch_.load() == seen && spin < kSpins; ++spin) pause();
      epoch_.wait(seen);
      seen = epoch_.load();
      if (ending_.load()) return;
      inside_.fetch_add(1);
      // Between the caller's closing of the places and its look at `inside_` no thread comes in.
      int places = places_.load();
      while (places > 0 && !places_.compare_exchange_weak(places, places - 1)) {
      }
      if (places > 0) job_->work();
      inside_.fetch_sub(1);
    }
  }

  void stop() {
    ending_.store(true);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    ending_.store(false);
  }

  static ThreadPool* current_;
  std::mutex turn_;
  std::vector<std::thread> workers_;
  std::atomic<int> size_ = std::max(1u, std::thread::hardware_concurrency());  // changed by the holder of the turn alone
  Job* job_ = nullptr;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int> places_{0};
  std::atomic<int> inside_{0};
  std::atomic<bool> ending_{false};
};

ThreadPool* ThreadPool::current_ = new ThreadPool();  // never destroyed: threads may outlive static destructors

class Background {
 public:
  static Background& instance() {
    static const bool registered = [] {
      // A forked child has no such thread: it starts with one of its own, and keeps what the parent's was to do.
      pthread_atfork(nullptr, nullptr, [] { current_ = new Background(); });
      return true;
    }();
    (void)registered;
    return *current_;
  }

  void take(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (!started_) std::thread([this] { serve(); }).detach();
    started_ = true;
    queue_.push_back(std::move(work));
    some_.notify_one();
  }

 private:
  void serve() {
    std::vector<std::function<void()>> works;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return !queue_.empty(); });
        works.swap(queue_);
      }
      for (auto& work : works) {
        work();
        work = nullptr;  // with what it holds
      }
      works.clear();
    }
  }

  static Background* current_;
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<std::function<void()>> queue_;
  bool started_ = false;
};

Background* Background::current_ = new Background();  // never destroyed: its thread outlives static destructors

}  // namespace

void run_in_background(std::function<void()> work) { Background::instance().take(std::move(work)); }

void set_threads(int threads) { ThreadPool::instance().resize(threads); }
int threads() { return ThreadPool::instance().size(); }

void checkpoint() {
  const Job* job = Job::mine;
  if (job != nullptr && (job->failed.load(std::memory_order_relaxed) || job->interrupted())) throw Interrupted();
}

void run_tasks(size_t tasks, int most, Poll poll, const std::function<void(size_t)>& task) {
  if (tasks == 0) return;
  Job job{&task, tasks, poll};
  ThreadPool::instance().run(job, most);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace muntin
