import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.SplittableRandom;

/** A cache of N entries of 1 kB. Reads a number of seconds per line, works so long, and answers
 *  OPERATIONS_PER_SECOND P50_US P99_US. An operation looks at 16 hot entries and makes some garbage. */
public class Cache {
    static final int LOOKS = 16;
    static byte[][] entries;
    static long sink;

    static byte[] entry(int key) {
        StringBuilder text = new StringBuilder(1050);
        long x = key * 0x9E3779B97F4A7C15L | 1;
        while (text.length() < 1000) {
            x ^= x << 13; x ^= x >>> 7; x ^= x << 17;
            text.append("{\"id\":").append(key).append(",\"name\":\"").append(Long.toHexString(x))
                .append("\",\"state\":\"active\"},");
        }
        return Arrays.copyOf(text.toString().getBytes(StandardCharsets.ISO_8859_1), 1000);
    }

    static void operation(SplittableRandom random, int first, int hot) {
        StringBuilder answer = new StringBuilder();
        for (int i = 0; i < LOOKS; i++) {
            // The square of a uniform number prefers the front.
            double u = random.nextDouble();
            byte[] e = entries[first + (int) (u * u * hot)];
            int hash = 0;
            for (byte b : e) hash = 31 * hash + b;
            sink += hash;
            answer.append(hash).append(',');
        }
        sink += answer.toString().length();
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[0]);
        entries = new byte[n][];
        for (int i = 0; i < n; i++) entries[i] = entry(i);
        System.gc();
        int hot = n / 10, first = n - hot;
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 50_000; i++) operation(random, first, hot);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        // Per 0.1 us; the last one holds all that were longer.
        int[] latencies = new int[1_000_000];
        for (String line; (line = in.readLine()) != null; ) {
            Arrays.fill(latencies, 0);
            long begin = System.nanoTime(), before = begin;
            long end = begin + (long) (Double.parseDouble(line) * 1e9);
            long done = 0;
            while (before < end) {
                operation(random, first, hot);
                long now = System.nanoTime();
                latencies[(int) Math.min((now - before) / 100, latencies.length - 1)]++;
                done++;
                before = now;
            }
            double seconds = (before - begin) / 1e9;
            System.out.printf("%.3f %.3f %.3f%n", done / seconds, percentile(latencies, done / 2),
                percentile(latencies, done * 99 / 100));
            System.out.flush();
        }
    }

    static double percentile(int[] latencies, long rank) {
        int i = 0;
        for (long sum = latencies[0]; sum <= rank && i < latencies.length - 1; sum += latencies[i]) i++;
        return i / 10.0;
    }
}
