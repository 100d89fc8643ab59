// Runs programs that consist of calls of cuDNN, and prints what the calls returned and wrote, without addresses.
//
//     calls PROGRAMS DEVICE.json [NOISE]
//
// Each line of the file PROGRAMS is a step:
//
//     program NAME HOW    begins a program: `here`, or `forked` to run it in a child process
//     NAME ARGUMENT...    calls a function of cuDNN
//     fork | raw-fork     runs the steps up to `join` in a child process, and waits for it
//     thread              runs the steps up to the next `thread` or `join` in a thread of its own
//     join                ends the steps of a child process or of threads
//     exit | _exit        ends the process
//
// An argument is a number, `null`, `low` (an address that is not mapped), `hN` (the address in slot N), `>hN` (memory
// to which the function writes an address for slot N), `callback` or `throws` (a log callback, and an argument that
// makes it throw), or memory: `@` and elements, separated by commas. Memory ends where a page ends, and the next page
// is not mapped. After `keep@`, the element `kept` is what the function wrote there.
//
// With NOISE, the heap and the stack are different, so that results that depend on them differ.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <csignal>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cudnn.h>
#include <cudnn_backend.h>
#include <cudnn_gnn_ops.h>
#include <cudnn_subquadratic_ops.h>

using Words = std::vector<std::string>;

struct Thrown {};

// A program that takes longer hangs.
constexpr unsigned SECONDS = 120;

static void *slots[256];
// The slots in the order in which they were filled, because the heap may use an address again.
static std::atomic<unsigned> fills{0};
static unsigned filled[256];
static std::string device;
static thread_local std::string kept;
// What a thread has printed.
static thread_local std::string *buffer = nullptr;

static void print(const std::string &text) {
    if (buffer) {
        *buffer += text;
    } else {
        for (size_t at = 0; at < text.size();) {
            ssize_t written = write(1, text.data() + at, text.size() - at);
            if (written < 0 && errno != EINTR) _exit(3);
            at += written < 0 ? 0 : (size_t)written;
        }
    }
}

static uint64_t hash(const std::string &text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
    return hash;
}

static std::string hex(uint64_t number) {
    char text[20];
    std::snprintf(text, sizeof text, "%llx", (unsigned long long)number);
    return text;
}

// Returns a word that is the same in every process.
static std::string shown(uint64_t word) {
    int found = -1;
    for (int slot = 0; slot < 256; slot++) {
        if (word && slots[slot] == (void *)word && (found < 0 || filled[slot] > filled[found])) found = slot;
    }
    if (found >= 0) return "h" + std::to_string(found);
    return word >= 0x500000000000 && word < 0x800000000000 ? "address" : hex(word);
}

static std::string shown(const std::string &bytes) {
    std::string text = bytes.substr(0, bytes.find('\0'));
    // Memory for text is no array of addresses.
    bool is_text = bytes.size() % 8 && bytes.find_first_not_of('\0', text.size()) == bytes.npos;
    for (unsigned char byte : text) is_text = is_text && (byte >= ' ' || byte == '\n' || byte == '\t');
    if (is_text) {
        for (char &byte : text) byte = byte == '\n' ? '|' : byte;
        return "'" + text + "'";
    }
    std::string words;
    for (size_t at = 0; at < bytes.size(); at += 8) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
        words += (at ? "," : "") + shown(word);
    }
    return words.size() < 200 ? words : "#" + hex(hash(words)) + "(" + std::to_string(bytes.size()) + ")";
}

// Memory that ends where a page ends.
class Memory {
public:
    Memory(const std::string &bytes, int slot, bool is_kept) : before(bytes), slot(slot), is_kept(is_kept) {
        length = (bytes.size() + 4095) / 4096 * 4096 + 4096;
        start = (char *)mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED) _exit(4);
        mprotect(start + length - 4096, 4096, PROT_NONE);
        std::memcpy(address(), bytes.data(), bytes.size());
    }
    void *address() const { return start + length - 4096 - before.size(); }
    // Returns what the function has changed.
    std::string finish() {
        std::string after((char *)address(), before.size());
        munmap(start, length);
        if (is_kept) kept = after;
        if (slot >= 0) {
            if (after == before) return " -";
            std::memcpy(&slots[slot], after.data(), 8);
            filled[slot] = ++fills;
            return slots[slot] ? " new" : " null";
        }
        return after == before ? "" : " " + shown(after);
    }

private:
    char *start;
    size_t length;
    std::string before;
    int slot;
    bool is_kept;
};

template <class T> static void append(std::string &bytes, T value) { bytes.append((const char *)&value, sizeof value); }

static int slot_in(const std::string &word) { return std::stoi(word.substr(word.find('h') + 1)) & 255; }

// Returns the bytes of these elements.
static std::string elements(const std::string &word) {
    std::string bytes;
    std::stringstream stream(word);
    for (std::string element; std::getline(stream, element, ',');) {
        std::string value = element.substr(element.find(':') + 1);
        switch (element[0]) {
        case '8': append(bytes, (int64_t)std::stoll(value)); break;
        case '4': append(bytes, (int32_t)std::stoll(value)); break;
        case '1': append(bytes, (int8_t)std::stoll(value)); break;
        case 'f': append(bytes, std::stof(value)); break;
        case 'g': append(bytes, std::stod(value)); break;
        case 'h': append(bytes, slots[slot_in(element)]); break;
        case 'z': bytes.append(std::stoul(value), '\0'); break;
        case 'd': bytes += device; break;
        case 'k': bytes += kept; break;
        }
    }
    return bytes;
}

static void callback(cudnnSeverity_t severity, void *data, const cudnnDebug_t *, const char *message) {
    if (data) throw Thrown();
    std::string text(message, strnlen(message, 300));
    // The loader tries again to load a library after some time.
    bool is_loader = text.find("cudnn_loader") != text.npos;
    if (severity <= CUDNN_SEV_WARNING && !is_loader) print(" [" + text.substr(0, text.find('\n')) + "]");
}

// The arguments of one call, as words.
class Arguments {
public:
    explicit Arguments(const Words &words) : words(words), memory(words.size()) {}

    template <class T> T get(size_t index) {
        if constexpr (std::is_same_v<T, cudnnCallback_t>) {
            return word(index) == "null" ? nullptr : callback;
        } else if constexpr (std::is_pointer_v<T>) {
            return (T)pointer(index);
        } else if constexpr (std::is_floating_point_v<T>) {
            return (T)std::stod(word(index));
        } else {
            return (T)std::stoll(word(index));
        }
    }

    // Returns what the function has changed.
    std::string finish() {
        std::string changes;
        for (auto &piece : memory) changes += piece ? piece->finish() : "";
        return changes;
    }

private:
    // The first word is the function.
    std::string word(size_t index) const { return index + 1 < words.size() ? words[index + 1] : "0"; }

    const void *pointer(size_t index) {
        static char throws;
        std::string word = this->word(index);
        if (word == "null" || word == "0") return nullptr;
        if (word == "low") return (void *)8;
        if (word == "throws") return &throws;
        if (word[0] == 'h') return slots[slot_in(word)];
        int slot = word[0] == '>' ? slot_in(word) : -1;
        std::string bytes = elements(word.substr(word.find_first_of("@>") + 1));
        memory.at(index) = std::make_unique<Memory>(bytes, slot, word[0] == 'k');
        return memory[index]->address();
    }

    Words words;
    std::vector<std::unique_ptr<Memory>> memory;
};

template <class R, class... A, size_t... I>
static std::string call(R (*function)(A...), Arguments &arguments, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
        function(arguments.get<A>(I)...);
        return "-";
    } else if constexpr (std::is_pointer_v<R>) {
        const char *text = function(arguments.get<A>(I)...);
        return text ? text : "null";
    } else {
        return std::to_string((long long)function(arguments.get<A>(I)...));
    }
}

template <class R, class... A> static std::string call(R (*function)(A...), Arguments &arguments) {
    return call(function, arguments, std::index_sequence_for<A...>());
}

struct Function {
    const char *name;
    std::string (*call)(Arguments &);
};

static const Function functions[] = {
#define FUNCTION(name) {#name, [](Arguments &arguments) { return call(name, arguments); }},
#include FUNCTIONS
};

// Calls a function, and returns its result and what it has changed.
static std::string call(const Words &words) {
    Arguments arguments(words);
    std::string returned = "unknown";
    try {
        for (const Function &function : functions) {
            if (words[0] == function.name) returned = function.call(arguments);
        }
    } catch (const Thrown &) {
        returned = "threw";
    }
    return returned + arguments.finish();
}

static Words words_of(const std::string &line) {
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

static std::string ending(int status) {
    // Corrupt memory ends a process in several ways.
    if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "hung" : "crashed";
    return "exit " + std::to_string(WEXITSTATUS(status));
}

using Lines = std::vector<std::string>;

static unsigned noise = 0;

// Leaves other bytes in the heap and on the stack, which cuDNN reads where it does not initialize its variables.
__attribute__((noinline)) static void make_noise(unsigned random) {
    volatile char area[1 << 16];
    for (volatile char &byte : area) byte = (char)random;
    std::memset(std::malloc(8 + random % 1500), (int)random, 8);
    // Takes what was freed last in every size, which may be a descriptor that is used again.
    if (noise % 2) {
        for (size_t size = 16; size <= 1536; size += 16) std::memset(std::malloc(size), (int)random, size);
    }
}

static std::string run_in_child(const Lines &, size_t from, size_t to, bool is_raw);

// Returns the index of the `join` that ends the block before this index.
static size_t block_end(const Lines &lines, size_t from, size_t to) {
    size_t depth = 0;
    for (size_t at = from; at < to; at++) {
        if (lines[at] == "fork" || lines[at] == "raw-fork") depth++;
        if (lines[at] == "join" && depth-- == 0) return at;
    }
    return to;
}

static void run(const Lines &lines, size_t from, size_t to);

static void run_threads(const Lines &lines, size_t from, size_t to) {
    std::vector<std::pair<size_t, size_t>> blocks;
    for (size_t at = from; at < to; at++) {
        if (lines[at] == "thread") blocks.push_back({at + 1, to});
        if (blocks.size() > 1 && lines[at] == "thread") blocks[blocks.size() - 2].second = at;
    }
    std::vector<std::string> texts(blocks.size());
    std::vector<std::thread> threads;
    std::atomic<size_t> ready{0};
    for (size_t index = 0; index < blocks.size(); index++) {
        threads.emplace_back([&, index] {
            buffer = &texts[index];
            ready++;
            while (ready < blocks.size()) std::this_thread::yield();
            run(lines, blocks[index].first, blocks[index].second);
            buffer = nullptr;
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (const std::string &text : texts) print(text);
}

static void run(const Lines &lines, size_t from, size_t to) {
    std::minstd_rand random(noise);
    for (size_t at = from; at < to; at++) {
        const std::string &line = lines[at];
        if (noise) make_noise((unsigned)random());
        if (line == "fork" || line == "raw-fork") {
            size_t end = block_end(lines, at + 1, to);
            print(std::to_string(at) + " child: " + run_in_child(lines, at + 1, end, line == "raw-fork") + "\n");
            at = end;
        } else if (line == "thread") {
            size_t end = block_end(lines, at, to);
            run_threads(lines, at, end);
            at = end;
        } else if (line == "exit") {
            std::exit(0);
        } else if (line == "_exit") {
            _exit(0);
        } else {
            Words words = words_of(line);
            if (words.empty()) continue;
            // A call may end the process.
            print(std::to_string(at) + " " + words[0]);
            print(" = " + call(words) + "\n");
        }
    }
}

static std::string run_in_child(const Lines &lines, size_t from, size_t to, bool is_raw) {
    pid_t child = is_raw ? (pid_t)syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) : fork();
    if (child == 0) {
        alarm(SECONDS);
        run(lines, from, to);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return ending(status);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    std::ifstream programs(argv[1]), described(argv[2]);
    device.assign(std::istreambuf_iterator<char>(described), {});
    noise = argc > 3 ? (unsigned)std::atoi(argv[3]) : 0;
    Lines lines;
    for (std::string line; std::getline(programs, line);) lines.push_back(line);
    for (size_t at = 0; at < lines.size();) {
        size_t end = at + 1;
        while (end < lines.size() && lines[end].rfind("program ", 0) != 0) end++;
        Words words = words_of(lines[at]);
        std::fill_n(slots, 256, nullptr);
        print(lines[at] + "\n");
        Lines program(lines.begin() + (long)at + 1, lines.begin() + (long)end);
        if (words.size() > 2 && words[2] == "here") {
            alarm(SECONDS);
            run(program, 0, program.size());
            alarm(0);
        } else {
            print(run_in_child(program, 0, program.size(), false) + "\n");
        }
        at = end;
    }
    return 0;
}
