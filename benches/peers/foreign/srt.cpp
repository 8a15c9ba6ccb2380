// SRT in file mode: a reliable stream without the timing of live media. Tuned as described in
// src/foreign.rs.

#include "child.hpp"

#include <srt/srt.h>

namespace {

/// Limit on unacknowledged packets.
constexpr int FLIGHT = 25'600;

/// Size of the library's send and receive buffers, bytes.
constexpr int BUFFER = 12 << 20;

/// Size of the UDP socket's receive buffer, bytes. The send buffer is the default, because loopback
/// empties it within each call.
constexpr int UDP_RECEIVE = 4 << 20;

/// MTU, bytes: the IPv4 packet with headers, so UDP has 28 bytes less.
constexpr int MSS = 1500;

/// Throws SRT's error message if a call failed.
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

    /// Accepts a connection, which inherits the listener's options.
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

    /// Returns when everything written is acknowledged, or the peer has closed.
    void close() const { checked(srt_close(id)); }

private:
    explicit Socket(SRTSOCKET id) : id(id) {}

    /// Creates a socket in file mode: a reliable stream without encryption, with SRT's congestion
    /// control for files.
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
