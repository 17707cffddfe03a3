/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway for a program that this one starts: an HTTP and a SOCKS5 proxy that let through what the policy allows.
 *
 *     cc gateway.c $(pkg-config --cflags --libs libbailey) -o gateway
 *     ./gateway api.example.com '*.example.org'        # prints the environment to use, until end of input
 */
#include <bailey/bailey.h>

#include <stdio.h>

int main(int argc, char **argv) {
        struct bailey_proxy proxy = { 0 };
        struct bailey_error e;
        bailey_config *config = NULL;
        bailey_manager *manager = NULL;
        bailey_gateway *gateway = NULL;
        char **environment = NULL;
        int i, r;

        r = bailey_config_new(NULL, &config, &e);
        for (i = 1; r == BAILEY_OK && i < argc; i++)
                r = bailey_config_allow(config, argv[i], &e);
        if (r == BAILEY_OK)
                r = bailey_manager_new(config, &manager, &e);
        if (r == BAILEY_OK)
                r = bailey_gateway_start(manager, NULL, &gateway, &e);
        if (r == BAILEY_OK) {
                proxy.http_port = bailey_gateway_http_port(gateway);
                proxy.socks_port = bailey_gateway_socks_port(gateway);
                r = bailey_proxy_environment(&proxy, &environment, &e);
        }
        if (r == BAILEY_OK) {
                for (i = 0; environment[i]; i++)
                        printf("%s\n", environment[i]);
                fflush(stdout);
                while (getchar() != EOF)
                        ;
        } else
                fprintf(stderr, "%s: %s\n", bailey_error_name(r), e.message);
        bailey_proxy_environment_free(environment);
        bailey_gateway_stop(gateway);
        bailey_manager_free(manager);
        bailey_config_free(config);
        return r == BAILEY_OK ? 0 : 1;
}
