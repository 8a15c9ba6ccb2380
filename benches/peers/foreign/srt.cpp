// SRT in file mode: streams without its clock of live media. Tuned as src/foreign.rs says.

#include "child.hpp"

#include <srt/srt.h>

namespace {

/// Most packets unacknowledged.
constexpr int FLIGHT = 25'600;

/// Buffers of the library at either end, bytes.
constexpr int BUFFER = 12 << 20;

/// The UDP socket's buffer to receive, bytes. That to send is left alone: loopback empties it within each call.
constexpr int UDP_RECEIVE = 4 << 20;

/// IPv4's packet, headers included: UDP carries 28 bytes less.
constexpr int MSS = 1500;

/// A call that failed ends the program; SRT remembers why.
int checked(int result) {
    if (result == SRT_ERROR) {
        throw std::runtime_error(srt_getlasterror_str());
    }
    return result;
}

class Socket {
public:
    static Socket listen(const sockaddr_in &address) {
        Socket socket;
        checked(srt_bind(socket.id, reinterpret_cast<const sockaddr *>(&address), sizeof address));
        checked(srt_listen(socket.id, 1));
        return socket;
    }

    static Socket connect(const sockaddr_in &address) {
        Socket socket;
        checked(srt_connect(socket.id, reinterpret_cast<const sockaddr *>(&address), sizeof address));
        return socket;
    }

    std::uint16_t port() const {
        sockaddr_in address{};
        int size = sizeof address;
        checked(srt_getsockname(id, reinterpret_cast<sockaddr *>(&address), &size));
        return ntohs(address.sin_port);
    }

    /// It inherits the listener's options.
    Socket accept() const {
        sockaddr_in peer{};
        int size = sizeof peer;
        return Socket(checked(srt_accept(id, reinterpret_cast<sockaddr *>(&peer), &size)));
    }

    std::size_t read(char *bytes, std::size_t size) const {
        const int length = checked(srt_recv(id, bytes, static_cast<int>(size)));
        if (length == 0) {
            throw std::runtime_error("the stream ended");
        }
        return static_cast<std::size_t>(length);
    }

    std::size_t write(const char *bytes, std::size_t size) const {
        return static_cast<std::size_t>(checked(srt_send(id, bytes, static_cast<int>(size))));
    }

    /// Returns when all that was written is acknowledged, or the peer has closed.
    void close() const { checked(srt_close(id)); }

private:
    explicit Socket(SRTSOCKET id) : id(id) {}

    /// File mode: a stream, everything delivered, no encryption, the control of congestion for files.
    Socket() : Socket(checked(srt_create_socket())) {
        set(SRTO_TRANSTYPE, SRTT_FILE);
        set(SRTO_MESSAGEAPI, false);
        set(SRTO_MSS, MSS);
        set(SRTO_FC, FLIGHT);
        set(SRTO_SNDBUF, BUFFER);
        set(SRTO_RCVBUF, BUFFER);
        set(SRTO_UDP_RCVBUF, UDP_RECEIVE);
    }

    template <class Value> void set(SRT_SOCKOPT option, Value value) const {
        checked(srt_setsockflag(id, option, &value, sizeof value));
    }

    SRTSOCKET id;
};

} // namespace

int main(int count, char **words) {
    srt_startup();
    const int status = child::run<Socket>(count, words);
    srt_cleanup();
    return status;
}
