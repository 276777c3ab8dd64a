package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// What can be known to be wrong before the first push ends the process, and names the
// setting.
func TestFCMSettingsThatAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	for says, settings := range map[string][]string{
		"fcm.serviceAccount (PUSHQ_FCM_SERVICEACCOUNT":    {"FCM_SERVICEACCOUNT=/run/secrets/account.json"},
		"fcm.url (PUSHQ_FCM_URL)":                         {"FCM_URL=fcm.googleapis.com"},
		"template.url (PUSHQ_TEMPLATE_URL)":               {"TEMPLATE_URL=templates:8000"},
		"fcm.serverKey (default":                          {"FCM_MODE=legacy"},
		"rabbitmq.url (PUSHQ_RABBITMQ_URL)":               {"RABBITMQ_URL=http://localhost:15672"},
		"history.postgresUrl (PUSHQ_HISTORY_POSTGRESURL)": {"HISTORY_POSTGRESURL=localhost:5432"},
	} {
		process := w.start("serve", append(w.settings, settings...)...)
		require.Equal(t, 1, process.Wait(20*time.Second))
		require.Contains(t, strings.Join(process.Stderr(), "\n"), says)
	}
}

// What only shows at run time is in the log, under the name of the setting, and everything
// else goes on; mended, it goes on without a new start.
func TestFCMSettingsThatAreWrongAtRunTime(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	sql := func(statement string) {
		t.Helper()
		connection, err := pgx.Connect(t.Context(), database.URL())
		require.NoError(t, err)
		defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
		_, err = connection.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	sql("REVOKE ALL ON SCHEMA public FROM public")
	rabbit.Control("add_user", "pushq", "another-password")
	rabbit.Control("set_permissions", "pushq", ".*", ".*", ".*")
	pushq := w.serve(
		"RABBITMQ_URL="+strings.Replace(rabbit.URL(), "guest:guest", "pushq:right-password", 1),
		"HISTORY_POSTGRESURL="+strings.Replace(database.URL(), "test@", "stranger@", 1))
	line := pushq.WaitForLine("the history cannot be written for now", 20*time.Second)
	require.Contains(t, line, "setting=history.postgresUrl")
	require.Contains(t, line, "correct the user, or allow it in pg_hba.conf")
	line = pushq.WaitForLine("no messages from RabbitMQ for now", 20*time.Second)
	require.Contains(t, line, "setting=rabbitmq.url")
	require.Contains(t, line, "username or password not allowed")

	id, _ := notify(t, pushq, notificationBody("device-1"))
	waitFor(t, pushq, id, tasks.Sent, 20*time.Second)
	response, err := client.Get(pushq.URL() + "/health/ready")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	rabbit.Control("change_password", "pushq", "right-password")
	rabbit.Publish(t, messagesQueue, notificationBody("device-2"))
	sql("CREATE ROLE stranger LOGIN")
	sql("GRANT ALL ON SCHEMA public TO stranger")
	testenv.Eventually(t, time.Minute, "the message from RabbitMQ", func() bool { return w.delivered()["device-2"] == 1 })
	testenv.EventuallyNoError(t, 90*time.Second, func() error {
		if count := auditRows(t, database); count != 2 {
			return fmt.Errorf("%d audit rows", count)
		}
		return nil
	})
}

// auditRows is 0 also while there is no table.
func auditRows(t *testing.T, database *testenv.Postgres) (count int) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database.URL())
	require.NoError(t, err)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	if connection.QueryRow(t.Context(), "SELECT count(*) FROM audit_logs").Scan(&count) != nil {
		return 0
	}
	return count
}
