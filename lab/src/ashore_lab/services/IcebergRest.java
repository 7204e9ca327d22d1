import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.sparkproject.jetty.ee10.servlet.ServletContextHandler;
import org.sparkproject.jetty.ee10.servlet.ServletHolder;
import org.sparkproject.jetty.server.Server;

/** The servlet by which Iceberg tests its clients, as a server: PORT, and a database of SQLite. */
public class IcebergRest extends RESTCatalogServlet {
  IcebergRest(RESTCatalogAdapter adapter) {
    super(adapter);
  }

  /** Says what the servlet does and does not say: a request with a key is applied once. */
  @Override
  protected void doGet(HttpServletRequest request, HttpServletResponse response)
      throws IOException {
    if (!request.getRequestURI().equals("/v1/config")) {
      super.doGet(request, response);
      return;
    }
    response.setContentType("application/json");
    response
        .getWriter()
        .write("{\"defaults\": {}, \"overrides\": {}, \"idempotency-key-lifetime\": \"PT30M\"}");
  }

  public static void main(String[] arguments) throws Exception {
    var properties = Map.of("type", "jdbc", "uri", "jdbc:sqlite:" + arguments[1],
        "warehouse", "none", "jdbc.schema-version", "V1");
    var catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration());
    var handler = new ServletContextHandler();
    var servlet = new IcebergRest(new RESTCatalogAdapter(catalog));
    handler.addServlet(new ServletHolder(servlet), "/*");
    var server =
        new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    server.setHandler(handler);
    server.start();
    server.join();
  }
}
