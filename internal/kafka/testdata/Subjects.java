import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;

/** Reads encoded distinguished names, one a line in base 64, and writes each as Kafka's brokers do, in base 64 too. */
public class Subjects {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        while (in.hasNextLine()) {
            String name = new X500Principal(Base64.getDecoder().decode(in.nextLine())).getName();
            System.out.println("> " + Base64.getEncoder().encodeToString(name.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
